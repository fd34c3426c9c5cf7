"""A sampling profiler: reads a thread's stack some hundred times a second."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY = 0.002
GROUPS = (
    ("rlcm_serve/api/routes", "routes"),
    ("rlcm_serve/api/wire", "wire types"),
    ("rlcm_serve/api/access", "keys and limits"),
    ("rlcm_serve/api/draining", "draining"),
    ("rlcm_serve/api/middleware", "observing"),
    ("rlcm_serve/api", "asking"),
    ("rlcm_serve/telemetry", "metrics, logs, traces"),
    ("logging/", "metrics, logs, traces"),
    ("prometheus_client", "metrics, logs, traces"),
    ("rlcm_serve/admission", "admission"),
    ("rlcm_serve/engine", "engine"),
    ("rlcm_serve", "solver"),
    ("fastapi", "FastAPI"),
    ("starlette", "Starlette"),
    ("anyio", "anyio"),
    ("uvicorn", "uvicorn"),
    ("pydantic", "pydantic"),
    ("vllm", "vLLM"),
)


class SampledProfile:
    """Samples the thread that enters this context, while the thread uses CPU time."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.by_part: Counter[str] = Counter()
        self.by_line: Counter[str] = Counter()
        self._ended = threading.Event()

    def __enter__(self) -> SampledProfile:
        self._watched = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._watched)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        before = time.clock_gettime(self._clock)
        while not self._ended.wait(EVERY):
            now = time.clock_gettime(self._clock)
            used, before = now - before, now
            frame = sys._current_frames().get(self._watched)
            if frame is None or used <= 0:
                continue
            self.busy += used
            part, line = _place(frame)
            self.by_part[part] += used  # type: ignore[assignment]
            self.by_line[line] += used  # type: ignore[assignment]

    def table(self, lines: int) -> str:
        """Shares of the CPU time by part, then by the innermost functions."""
        rows = ["| part | share |", "|---|---|"]
        rows += [
            f"| {part} | {used / self.busy:.1%} |" for part, used in self.by_part.most_common()
        ]
        rows += ["", "| function | share |", "|---|---|"]
        top = self.by_line.most_common(lines)
        rows += [f"| {line} | {used / self.busy:.1%} |" for line, used in top]
        return "\n".join(rows)


def _place(frame: FrameType) -> tuple[str, str]:
    """The innermost known part of the program, and the innermost function."""
    code = frame.f_code
    line = f"{'/'.join(Path(code.co_filename).parts[-2:])} {code.co_name}"
    above: FrameType | None = frame
    while above is not None:
        name = above.f_code.co_filename
        for pattern, part in GROUPS:
            if pattern in name:
                return part, line
        above = above.f_back
    return "event loop, sockets, pipes", line
