"""The engine's process is killed: everyone is told at once, and a service brings it back.

Nothing of what is killed stays behind, and requests of low priority, or with a seed, hold what they
promise where the engine has too little room.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from calibration import FULL_BUDGET
from rlcm_serve.core import Budget, Delta, Question
from rlcm_serve.engine.clients.launched import LaunchedClient
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.errors import EngineDead, NotReady
from rlcm_serve.profiles.profile import DEFAULT_NAME
from rlcm_serve.solving.service import Service
from tests.rlcm_serve.engine.asking import forced_answers, generation, think, user
from tests.rlcm_serve.engine.crowd import (
    INTERVAL,
    Forward,
    compare_with_transformers,
    crowd,
    preemptions,
)
from tests.served import shared_memory
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 24, seed=4)]
BRIEF = Budget(60, 8)
QUESTION = "A dial shows 3. A up 5. What does it show now?"
SLOTS = 20
SETTINGS = EngineSettings(
    interval=INTERVAL,
    max_tokens=400,
    answer_max_tokens=32,
    slots=SLOTS,
    log_stats=True,
    vllm_arguments=(
        *("--max-model-len", "640", "--max-num-seqs", "4", "--block-size", "32"),
        *("--num-gpu-blocks-override", "24", "--no-enable-prefix-caching"),
        *("--distributed-executor-backend", "mp"),
    ),
)
"""Four requests run at a time, with room for less than two; prompts are taken in whole.

The model runs in a process of its own, as on several GPUs.
"""


class Stages:
    """What the service has told of itself."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[str] = asyncio.Queue()

    def add(self, stage: str) -> None:
        self._told.put_nowait(stage)

    async def until(self, part: str, seconds: float) -> None:
        """Waits for the next stage with these words."""
        async with asyncio.timeout(seconds):
            while part not in await self._told.get():
                pass


@pytest.fixture(scope="module")
def stages() -> Stages:
    return Stages()


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """The folder for this process's temporary files: other tests' engines leave theirs elsewhere.

    Its name is short, as a socket's path may have 107 characters.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(scope="module")
async def service(stages: Stages, temporary: Path) -> AsyncIterator[Service]:
    engine = VllmEngine(SETTINGS)
    service = Service(engine, on_stage=stages.add, restart_policy=RestartPolicy(first_wait=0.1))
    await service.start()
    await stages.until("ready", 0)
    yield service
    service.stop()


@pytest.fixture
def engine(service: Service) -> VllmEngine:
    assert isinstance(service.engine, VllmEngine)
    return service.engine


def processes(engine: VllmEngine) -> list[psutil.Process]:
    """Those of its vLLM."""
    assert engine.running is not None
    assert isinstance(engine.running.client, LaunchedClient)
    return engine.running.client.cleanup.processes


async def test_seeds_hold_under_preemption(engine: VllmEngine) -> None:
    before = preemptions()
    first = await crowd(engine, seeds=True)
    again = await crowd(engine, seeds=True)
    assert preemptions() > before
    finished = [(one, two) for one, two in zip(first, again, strict=True) if one and two]
    assert len(finished) > 20
    assert all(one[1].tokens == two[1].tokens for one, two in finished)
    forward = Forward(engine.stop_ids)
    assert compare_with_transformers([one for one, _ in finished], forward) > 200


async def test_a_low_priority_yields_to_questions(engine: VllmEngine) -> None:
    begun: list[str] = []
    full = asyncio.Event()

    async def ask(name: str, question: str, priority: int) -> None:
        prompt, how = engine.prompt(user(question)), generation(engine, BRIEF, priority=priority)
        async for event in engine.think(prompt, FULL_BUDGET, how):
            if isinstance(event, Delta) and name not in begun:
                begun.append(name)
                if len(begun) == 4:
                    full.set()

    backlog = [asyncio.create_task(ask(f"{n}", QUESTIONS[n], 1)) for n in range(16)]
    await full.wait()
    await ask("question", QUESTION, 0)
    await asyncio.gather(*backlog)
    # The first of the four who ended may have made room for a fifth before it was asked.
    assert begun.index("question") <= 5


@dataclass(frozen=True)
class Held:
    """What this process holds of the machine."""

    files: int
    threads: int
    native_threads: int
    sockets: int

    @classmethod
    def now(cls, temporary: Path) -> Held:
        gc.collect()
        me = psutil.Process()
        names = [thread.name for thread in threading.enumerate()]
        return cls(
            files=me.num_fds(),
            # Python's pool for what would block the loop grows to its size, and stays.
            threads=sum(not name.startswith("asyncio_") for name in names),
            native_threads=me.num_threads() - len(names),
            sockets=len(list(temporary.glob("rlcm-own-*/*"))),
        )


def busy_with(engine: VllmEngine) -> list[Callable[[], Awaitable[object]]]:
    """Everything that waits for the engine: more who think than there are slots, and the others."""
    prompt, how = engine.prompt(user(QUESTION)), generation(engine)

    async def read_state() -> object:
        return await engine.under(DEFAULT_NAME).read_state(prompt)

    async def force_answers() -> object:
        return await forced_answers(engine, prompt, (), how, 2)

    async def reason() -> object:
        return await think(engine, prompt, text=True)

    return [*[reason] * (SLOTS + 4), read_state, read_state, force_answers, force_answers]


async def again_and_again(ask: Callable[[], Awaitable[object]]) -> None:
    while True:
        await ask()


async def kill_under_load(service: Service, engine: VllmEngine, name: str) -> None:
    """Kills one of the engine's processes, and holds that everyone is told."""
    (process,) = [one for one in processes(engine) if one.name().startswith(name)]
    asking = [asyncio.create_task(again_and_again(ask)) for ask in busy_with(engine)]
    await asyncio.sleep(0.5)
    assert engine.in_flight >= SLOTS
    os.kill(process.pid, signal.SIGKILL)
    began = time.monotonic()
    for ended in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(ended, EngineDead), ended
    assert time.monotonic() - began < 2
    with pytest.raises(EngineDead):
        await engine.check_health()
    with pytest.raises((NotReady, EngineDead)):
        await service.check_ready()


@pytest.mark.parametrize("name", ["VLLM::EngineCor", "VLLM::Worker"])
async def test_a_killed_engine_is_told_of_at_once_and_comes_back(
    service: Service,
    engine: VllmEngine,
    stages: Stages,
    temporary: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restarts = service.restarts
    # pytest keeps what is logged, and with vLLM's own traceback the dead engine's sockets.
    monkeypatch.setattr(logging.getLogger("vllm.v1.engine.async_llm"), "disabled", True)
    held, old = Held.now(temporary), processes(engine)
    memory = shared_memory(old)
    assert memory
    assert held.sockets
    await kill_under_load(service, engine, name)
    await stages.until("restarting the engine", 10)
    with pytest.raises(NotReady, match="restarting the engine"):
        _ = service.solver

    await stages.until("ready", 300)
    assert service.restarts == restarts + 1
    await service.check_ready()
    assert (await service.solver.solve(Question(QUESTION, alpha=0.1))).tokens > 0

    assert not any(process.is_running() for process in old)
    assert not [path for path in memory if path.exists()]
    now = Held.now(temporary)
    assert now.files <= held.files
    assert now.threads <= held.threads
    assert now.native_threads <= held.native_threads
    assert now.sockets <= held.sockets
