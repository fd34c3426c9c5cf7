"""`rlcm serve` with a stopwatch: callbacks that hold the event loop long are written to a file.

Run as a program: the file's name comes from the environment, the arguments are those of `rlcm`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOTED = 0.01
"""Seconds of CPU time from which a callback is written down."""
VARIABLE = "STOPWATCH_FILE"


def note(callback: Callable[..., Any], cpu: float, wall: float) -> None:
    """Adds a line to the file: seconds of the loop's thread, seconds on the wall, and which."""
    # The steps of a task are methods of its own class in C; the task says more than they do.
    name = repr(getattr(callback, "__self__", None) or callback)
    line = json.dumps({"cpu": cpu, "wall": wall, "name": name[:400]})
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(f"{line}\n")


def timed(callback: Callable[..., Any], *args: Any) -> Any:
    """Calls the callback with a stopwatch on this thread's CPU time."""
    began, began_cpu = time.monotonic(), time.thread_time()
    try:
        return callback(*args)
    finally:
        cpu = time.thread_time() - began_cpu
        if cpu > NOTED:
            note(callback, cpu, time.monotonic() - began)


def start_stopwatch() -> None:
    """Times everything that the service's loop calls: callbacks, tasks, readers, its protocol."""
    import uvloop

    from rlcm_serve.api.server.http_protocol import LimitedProtocol

    class TimedLoop(uvloop.Loop):
        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon(timed, callback, *args, context=context)

        def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon_threadsafe(timed, callback, *args, context=context)

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_later(delay, timed, callback, *args, context=context)

        def add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:
            return super().add_reader(fd, timed, callback, *args)

        def add_writer(self, fd: Any, callback: Any, *args: Any) -> Any:
            return super().add_writer(fd, timed, callback, *args)

    uvloop.new_event_loop = TimedLoop
    for name in ("connection_made", "data_received", "connection_lost", "resume_writing"):
        setattr(LimitedProtocol, name, _timed_method(getattr(LimitedProtocol, name)))


def _timed_method(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return timed(method, *args)

    return call


if __name__ == "__main__":  # vLLM's processes import this file under another name
    start_stopwatch()
    from rlcm_serve.cli import main

    main()
