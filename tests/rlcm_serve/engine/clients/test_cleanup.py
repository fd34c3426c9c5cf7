"""What is left of processes that are killed, and that none of it is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest

from rlcm_serve.engine.clients.cleanup import DeadEngineCleanup, children

pytestmark = pytest.mark.skipif(
    not Path("/dev/shm").is_dir(), reason="where there is no /dev/shm, nothing is left in it"
)


def hold_memory(pipe: Connection) -> None:
    """Holds shared memory and a semaphore of its own name, and has started a process itself."""
    memory = SharedMemory(create=True, size=64)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pipe.send((memory.name, child.pid))
    pipe.recv()


@pytest.fixture
def holder() -> Iterator[tuple[int, Path, int]]:
    """A process, its shared memory, and the process that it has started."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    before = children()
    process = context.Process(target=hold_memory, args=(theirs,))
    process.start()
    name, child = ours.recv()
    assert children() - before == {process.pid}
    assert process.pid is not None
    yield process.pid, Path("/dev/shm") / name, child
    process.join()
    ours.close()


def test_what_a_killed_process_leaves_is_removed(
    holder: tuple[int, Path, int], capfd: pytest.CaptureFixture[str]
) -> None:
    pid, memory, child = holder
    other = SharedMemory(create=True, size=64)
    remains = DeadEngineCleanup([pid])
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)])
    assert memory.exists()
    assert psutil.pid_exists(child)

    remains.remove()
    assert not memory.exists()
    assert not psutil.pid_exists(child)
    assert (Path("/dev/shm") / other.name).exists(), "what others hold is theirs"
    other.close()
    other.unlink()
    remains.remove()
    assert capfd.readouterr().err == "", "Python's resource tracker misses nothing"


def test_what_still_runs_is_ended(holder: tuple[int, Path, int]) -> None:
    pid, memory, child = holder
    DeadEngineCleanup([pid]).remove()
    assert not psutil.pid_exists(child)
    assert not memory.exists()


def test_nothing_remains_of_nothing() -> None:
    DeadEngineCleanup([]).remove()
