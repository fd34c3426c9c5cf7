import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.queues import Queue

import pytest

from rlcm_serve.engine.worker.plugin import end_with_service

CONTEXT = multiprocessing.get_context("spawn")


def tell_group(told: "Queue[int]") -> None:
    end_with_service()
    told.put(os.getpgrp())


@pytest.mark.parametrize(
    ("name", "leaves"), [("EngineCore_DP0", True), ("VllmWorker-0", True), ("grader", False)]
)
def test_vllms_processes_alone_leave_the_group_of_the_terminal(name: str, leaves: bool) -> None:
    told: Queue[int] = CONTEXT.Queue()
    process = CONTEXT.Process(target=tell_group, args=(told,), name=name)
    process.start()
    group = told.get(timeout=60)
    process.join()
    assert group == (process.pid if leaves else os.getpgrp())


def test_the_service_itself_stays() -> None:
    group = os.getpgrp()
    end_with_service()
    assert os.getpgrp() == group


CHILD = """
import multiprocessing, os, time
from rlcm_serve.engine.worker.plugin import end_with_service

def engine(told):
    end_with_service()
    told.set()
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    told = context.Event()
    process = context.Process(target=engine, args=(told,), name="EngineCore_DP0")
    process.start()
    told.wait()
    print("told", flush=True)
    time.sleep(600)
"""


def test_an_engine_ends_with_a_service_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.send_signal(signal.SIGKILL)
        # The engine holds the other end of the pipe too, which closes when the last holder ends.
        assert parent.communicate(timeout=20) == (b"", None)
