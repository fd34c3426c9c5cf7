"""Why vLLM's processes ended: how each of them ended, and what vLLM logged last."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

_PATIENCE = 1.0
"""Seconds for the first process to end: vLLM may tell of an error before it exits."""
_GRACE = 0.2
"""Seconds for each further process to end."""
_READ = 65536
"""Bytes of the log that are read, from its end."""
_MESSAGES, _LONGEST = 4, 300
_LOGGED = re.compile(r"\(\S+ pid=\d+\) (?P<level>[A-Z]+) \S+ \S+ \[[^\]]+\] (?P<said>.*)")
_PROGRESS = re.compile(r"\d+%.*\|.*\[\d+:\d+<[^\]]*\]\s*$")
"""A bar of tqdm: it says how far something came, and not what happened last."""
_NO_MESSAGE = re.compile(r"\s|Traceback |During handling |The above exception |$")


def cause_of_death(processes: Sequence[BaseProcess], log: Path | None) -> str:
    """Why vLLM has stopped, for the operator's log; waits up to a second for an exit.

    Args:
        processes: that this process started for vLLM.
        log: file with vLLM's output since its start; None if there is none.
    """
    known = [process for process in processes if _is_open(process)]
    if wait([process.sentinel for process in known], _PATIENCE):
        for process in known:
            process.join(_GRACE)  # a sentinel tells a moment before the exit is known
    ends = [end for process in known if (end := _end_of(process))]
    causes = [", ".join(ends) or "vLLM has stopped running"]
    if log is not None:
        causes += [last_words(log), f"its output is in {log} until it is restarted"]
    return "; ".join(causes)


def _is_open(process: BaseProcess) -> bool:
    with suppress(ValueError):  # it was closed
        return process.sentinel is not None
    return False


def _end_of(process: BaseProcess) -> str | None:
    """How a process ended; None if it has not, or if somebody else was told."""
    code = process.exitcode
    if code is None:
        return None
    if code >= 0:
        return f"{process.name} (process {process.pid}) exited with status {code}"
    name = _name_of(-code)
    why = " (the kernel does so when memory runs out)" if name == "SIGKILL" else ""
    return f"{process.name} (process {process.pid}) was ended by {name}{why}"


def _name_of(number: int) -> str:
    """The name of a signal; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_words(log: Path) -> str:
    """vLLM's last error messages in its log, or the last line if it logged no error.

    Messages of this process do not count: it knows only that vLLM's other processes have ended.
    Nor do progress bars.
    """
    lines = [line for line in _tail(log) if _counts(line)]
    logged = [found for line in lines if (found := _LOGGED.fullmatch(line))]
    errors = [found["said"] for found in logged if found["level"] in ("ERROR", "CRITICAL")]
    messages = [said for said in dict.fromkeys(errors) if not _NO_MESSAGE.match(said)]
    if messages:
        return "vLLM's last errors: " + " | ".join(map(_cut, messages[-_MESSAGES:]))
    last = f": its last line is {_cut(lines[-1])!r}" if lines else ""
    return f"vLLM logged no error{last}"


def _counts(line: str) -> bool:
    own = f" pid={os.getpid()}) "
    return bool(line.strip()) and own not in line and not _PROGRESS.search(line)


def _tail(log: Path) -> list[str]:
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _READ))
        return file.read().decode(errors="replace").split("\n")
    return []


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
