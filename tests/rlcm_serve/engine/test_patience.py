"""vLLM's processes leave the cores to those that compute."""

from __future__ import annotations

import asyncio
import threading
import time

import psutil
import zmq
from vllm.distributed.device_communicators import shm_broadcast
from vllm.utils.network_utils import get_open_zmq_ipc_path

from rlcm_serve.engine.patience import sleep_while_waiting
from rlcm_serve.engine.vllm_engine import VllmEngine
from tests.rlcm_serve.engine.asking import think
from training.tasks.problems import Split, sample_problems

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 36, seed=1)]


async def test_the_core_sleeps_while_the_worker_computes(engine: VllmEngine) -> None:
    family = psutil.Process().children(recursive=True)
    (core,) = (process for process in family if "EngineCore" in process.name())
    (worker,) = (process for process in core.children() if "Worker" in process.name())

    def computed() -> list[float]:
        return [process.cpu_times().user for process in (core, worker)]

    before = computed()
    await asyncio.gather(*map(think, [engine] * 36, QUESTIONS))
    of_core, of_worker = (
        after - earlier for after, earlier in zip(computed(), before, strict=True)
    )
    assert of_worker > 1
    assert of_core < 0.5 * of_worker


def test_a_reader_is_woken_and_computes_nothing_before() -> None:
    sleep_while_waiting()
    address, context = get_open_zmq_ipc_path(), zmq.Context()
    writer = shm_broadcast.SpinCondition(False, context, address)
    reader = shm_broadcast.SpinCondition(True, context, address)
    began, computing = time.monotonic(), time.thread_time()
    while time.monotonic() < began + 0.5:
        reader.wait()
    assert time.thread_time() - computing < 0.1

    reader.last_read = float("-inf")  # no longer busy: it waits for the notification alone
    threading.Timer(0.2, writer.notify).start()
    began = time.monotonic()
    reader.wait(timeout_ms=20_000)
    assert time.monotonic() - began < 5
    context.destroy(linger=0)
