"""vLLM's processes, and what they leave behind when they are killed.

A process that is killed ends none of those it has started, and removes none of the shared memory it
talked to them through. A service that starts vLLM again must not fill its machine with either.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

_SHARED_MEMORY = Path("/dev/shm")
_SECONDS = 5.0  # for killed processes to be gone


def children() -> frozenset[int]:
    """The processes that this one has started with `multiprocessing`, and that still run."""
    started = (process.pid for process in multiprocessing.active_children())
    return frozenset(pid for pid in started if pid is not None)


class DeadEngineCleanup:
    """Some processes with all those they have started, and their shared memory."""

    def __init__(self, started: Iterable[int]) -> None:
        self.processes: list[psutil.Process] = []
        for pid in started:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                self.processes += [process, *process.children(recursive=True)]
        self._mapped = {path for process in self.processes for path in _mapped_by(process.pid)}

    def remove(self) -> None:
        """Ends those that still run, and frees what is left of their memory: nothing, as a rule."""
        for process in self.processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(self.processes, timeout=_SECONDS)
        named = (_named_by(process.pid) for process in self.processes)
        for path in self._mapped.union(*named):
            if path.exists():
                path.unlink(missing_ok=True)
                _forget(path.name)


def _mapped_by(pid: int) -> set[Path]:
    """Files of shared memory that a process has in its address space; none where /proc is not."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        paths = {Path(line.partition("/")[1] + line.partition("/")[2]) for line in lines}
        return {path for path in paths if path.parent == _SHARED_MEMORY}
    return set()


def _named_by(pid: int) -> set[Path]:
    """Semaphores that are called after the process that has made them."""
    return set(_SHARED_MEMORY.glob(f"sem.*-{pid}-*"))


def _forget(name: str) -> None:
    """Tells Python's resource tracker, which all of them share, that there is nothing to free."""
    if name.startswith("sem."):
        resource_tracker.unregister(f"/{name.removeprefix('sem.')}", "semaphore")
    elif name.startswith("psm_"):
        resource_tracker.unregister(f"/{name}", "shared_memory")
