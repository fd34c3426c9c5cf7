"""Cleans up after vLLM processes that were killed.

A killed process neither ends the processes it started nor removes the shared memory it used to talk
to them. A service that restarts vLLM must not let either pile up.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

_SHARED_MEMORY = Path("/dev/shm")
_SECONDS = 5.0  # to wait until killed processes have ended


def children() -> frozenset[int]:
    """Ids of the running processes that this one started with `multiprocessing`."""
    started = (process.pid for process in multiprocessing.active_children())
    return frozenset(pid for pid in started if pid is not None)


class DeadEngineCleanup:
    """Some processes, their descendants, and the shared memory of all of them."""

    def __init__(self, started: Iterable[int]) -> None:
        self.processes: list[psutil.Process] = []
        for pid in started:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                self.processes += [process, *process.children(recursive=True)]
        self._mapped = {path for process in self.processes for path in _mapped_by(process.pid)}

    def kill(self) -> None:
        """Kills the processes that still run, stopped ones too; does not wait for their end."""
        for process in self.processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def remove(self) -> None:
        """Kills the processes that still run and removes leftover shared memory, if any."""
        self.kill()
        psutil.wait_procs(self.processes, timeout=_SECONDS)
        named = (_named_by(process.pid) for process in self.processes)
        for path in self._mapped.union(*named):
            if path.exists():
                path.unlink(missing_ok=True)
                _forget(path.name)


def _mapped_by(pid: int) -> set[Path]:
    """Shared memory files mapped by a process; none on a system without /proc."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        paths = {Path(line.partition("/")[1] + line.partition("/")[2]) for line in lines}
        return {path for path in paths if path.parent == _SHARED_MEMORY}
    return set()


def _named_by(pid: int) -> set[Path]:
    """Semaphores whose names hold the id of the process that created them."""
    return set(_SHARED_MEMORY.glob(f"sem.*-{pid}-*"))


def _forget(name: str) -> None:
    """Tells Python's resource tracker, shared by all processes, that nothing is left to free."""
    if name.startswith("sem."):
        resource_tracker.unregister(f"/{name.removeprefix('sem.')}", "semaphore")
    elif name.startswith("psm_"):
        resource_tracker.unregister(f"/{name}", "shared_memory")
