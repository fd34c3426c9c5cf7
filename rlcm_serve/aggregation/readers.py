"""Processes that read answers, so that a large batch does not hold up the threads of a service."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from select import poll
from typing import IO

import msgspec

from rlcm_serve.answers.canonical.form import Form
from rlcm_serve.errors import WorkerFailed

CHUNK = 1024
"""Texts of one message to a process."""
_READER = Path(__file__).with_name("reader.py")
_FORMS = msgspec.json.Decoder(list[Form | None])


class Reader:
    """A process that reads answers; it starts with the first chunk. One thread uses it at a time.

    Args:
        niceness: how far the process steps back for other processes, as for `os.nice`.
    """

    def __init__(self, niceness: int = 0) -> None:
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def read(self, texts: Sequence[str], limit: float) -> list[Form | None] | None:
        """The canonical forms of at most CHUNK texts; None if they took over `limit` seconds.

        Raises:
            WorkerFailed: the process was killed.
            RuntimeError: the reader was closed.
        """
        deadline = time.monotonic() + limit
        if self._process is None:
            self._process = self._spawn()
        if self._is_closed:  # after the start: `kill` may have found no process to end
            self.close()
            raise RuntimeError("the reader was closed")
        stdin, stdout = self._pipes()
        with suppress(BrokenPipeError):
            stdin.write(msgspec.json.encode(texts) + b"\n")
            stdin.flush()
        ready = poll()
        ready.register(stdout)
        in_time = bool(ready.poll(_milliseconds(deadline)))
        reply = stdout.readline() if in_time else b""
        if reply.endswith(b"\n"):  # a process that was killed while it wrote leaves half a line
            return _FORMS.decode(reply)
        self._end()
        if self._is_closed:
            raise RuntimeError("the reader was closed")
        if not in_time:
            return None
        raise WorkerFailed("the process that reads answers was killed: send the request again")

    def kill(self) -> None:
        """Ends the process for good, from any thread and without waiting; `close` waits."""
        self._is_closed = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process for good; may be called twice."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError), process:  # closes the pipes and waits
                pass

    def _spawn(self) -> subprocess.Popen[bytes]:
        # As for the grader's worker: nothing in the working directory can replace a module.
        return subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(_READER), str(self._niceness)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the reader was started without pipes")
        return process.stdin, process.stdout


def _milliseconds(deadline: float) -> float | None:
    """Until the deadline; None without one."""
    left = max(0.0, deadline - time.monotonic())
    return None if left == math.inf else 1000 * left
