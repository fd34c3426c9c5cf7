"""Results and progress on the command line, and redirection of vLLM's output."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from rlcm_serve.own_files import own_log

_WRITTEN_EVERY = 30.0
"""Seconds between two lines of progress in a log."""


def print_result(facts: Mapping[str, object], words: str, *, as_json: bool) -> None:
    """Prints what a command found: the facts as JSON, or words, whose lines are not folded.

    Raises:
        ValueError: a fact is NaN or infinite, which JSON lacks.
    """
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=2, default=str, allow_nan=False) + "\n")
    else:
        Console(markup=False, highlight=False, soft_wrap=True).print(words)


def default_engine_log() -> Path:
    """Default file for vLLM's output."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "rlcm-serve" / "engine.log"


def state_folder() -> Path:
    """Default folder for data that must outlive the service."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "rlcm-serve"


@contextmanager
def output_to(log: Path | None) -> Iterator[None]:
    """Sends what this process and those it starts write to stdout and stderr into `own_log(log)`.

    The processes that are started meanwhile keep writing there; this one gets its terminal back,
    but what vLLM logs in it goes there too. With `log` None all of it goes to stderr, because
    stdout is for results. It acts on the whole process, other threads included.
    """
    destination = 2 if log is None else own_log(log).descriptor
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(destination, 1)
    os.dup2(destination, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, original in zip((1, 2), kept, strict=True):
            os.dup2(original, descriptor)
            os.close(original)
        _redirect_vllm(destination)


def _redirect_vllm(descriptor: int) -> None:
    """Lets vLLM's own handler in this process write to this file; it was made for stdout.

    From now on only warnings and errors: vLLM reports its throughput every ten seconds.
    """
    logger = logging.getLogger("vllm")
    logger.setLevel(logging.WARNING)
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler) and (
            handler.stream is sys.stdout or isinstance(handler.stream, _Descriptor)
        ):
            handler.stream = _Descriptor(descriptor)


class _Descriptor(io.TextIOBase):
    """Text that goes to an open file, whichever that is now; it is not closed here."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str, /) -> int:
        os.write(self._descriptor, text.encode(errors="replace"))
        return len(text)


@contextmanager
def kept_stderr() -> Iterator[TextIO]:
    """A stream to what is stderr now, wherever `output_to` may send it meanwhile."""
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", buffering=1) as stream:
        yield stream


class StageClock:
    """Prints one line per stage of a start, with the seconds since the beginning."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._last = ""

    def __call__(self, stage: str) -> None:
        """Reports that `stage` begins."""
        if stage != self._last:
            elapsed = time.monotonic() - self._began
            self._console.print(f"[{elapsed:5.1f} s] {stage}", markup=False, highlight=False)
            self._last = stage


class _Rate(ProgressColumn):
    """Finished items per second, or per minute where they are slow."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{60 * speed:.1f}/min")


class _Bar(Progress):
    """A bar that an error removes, so that the error stands alone.

    Where no terminal can draw it, such as in a log, it is written down every half minute.
    """

    _due = 0.0

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if exc_type is not None and issubclass(exc_type, Exception):
            self.live.transient = True
        super().__exit__(exc_type, exc_val, exc_tb)

    def start(self) -> None:
        super().start()
        self._due = self.get_time() + _WRITTEN_EVERY

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._write_down()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._write_down()

    def _write_down(self) -> None:
        if not self.console.is_terminal and self.get_time() >= self._due:
            self._due = self.get_time() + _WRITTEN_EVERY
            self.console.print(self.get_renderable())


def progress_bar(console: Console) -> Progress:
    """A bar with counts, rate, time spent and time left; in a log, a line of them now and then."""
    return _Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


@contextmanager
def shown_progress(console: Console, label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for one task; the function takes the number of finished items and of all items."""
    with progress_bar(console) as progress:
        bar = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
