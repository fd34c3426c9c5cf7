"""What the simulation takes from the real parts: the engine's steps, the store, who uses it."""

from __future__ import annotations

import asyncio
import multiprocessing
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg

from calibration import FULL_BUDGET
from rlcm_serve.core import Budget, GenerationSettings, Message, Role, Rollout, Sampling
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.store.database import Database
from rlcm_serve.store.unanswered.stored import StoredUnanswered
from studies.serving.load import own_service
from training.tasks.problems import Split, sample_problems

RUNNING = (1, 4, 16, 64, 128)
"""Samples that run at a time."""
THINKING = 400
AT_A_TIME = 8
"""Transactions that each process of the store's measurement has under way."""
PROCESSES = 2
SETTLING = 5.0
"""Seconds after which a service that has just started is idle."""


async def engine_steps(seconds: float, rounds: int) -> list[dict[str, float]]:
    """For each number of running samples: the step, and the CPU time of vLLM's front end a token.

    Args:
        seconds: of each round.
        rounds: in turn over all numbers; medians are given.
    """
    with tempfile.TemporaryDirectory() as folder:
        engine = VllmEngine(EngineSettings(log=Path(folder, "engine.log")))
        await engine.start()
        try:
            await _steps(engine, RUNNING[-1], seconds)  # compiles
            rows: dict[int, list[tuple[float, float]]] = {running: [] for running in RUNNING}
            for _ in range(rounds):
                for running in RUNNING:
                    rows[running].append(await _steps(engine, running, seconds))
        finally:
            engine.stop()
    return [
        {
            "running": running,
            "step_ms": round(1000 * statistics.median(step for step, _ in found), 3),
            "front_end_cpu_ms_per_token": round(statistics.median(cpu for _, cpu in found), 4),
        }
        for running, found in rows.items()
    ]


async def _steps(engine: VllmEngine, running: int, seconds: float) -> tuple[float, float]:
    """Seconds of a step, and milliseconds of this process' CPU time a token."""
    questions = [one.question for one in sample_problems(Split.VALIDATION, running, seed=running)]
    how = GenerationSettings(Budget(THINKING, 2), Sampling(1.0, top_p=1.0))
    tokens, until = 0, time.monotonic() + seconds
    began, began_cpu = time.monotonic(), time.process_time()

    async def keep_one_running(question: str) -> None:
        nonlocal tokens
        prompt = engine.prompt([Message(Role.USER, question)])
        while time.monotonic() < until:
            async for event in engine.think(prompt, FULL_BUDGET, how):
                if isinstance(event, Rollout):
                    tokens += len(event.tokens)

    await asyncio.gather(*map(keep_one_running, questions))
    took, cpu = time.monotonic() - began, time.process_time() - began_cpu
    return running * took / tokens, 1000 * cpu / tokens


def store_speed(url: str, seconds: float) -> dict[str, float]:
    """Transactions a second that the database takes from two processes: looks, and remembering."""
    with closing(Database(url)):  # creates the tables before both processes do
        pass
    return {
        "reads_per_s": _speed(url, seconds, writes=False),
        "writes_per_s": _speed(url, seconds, writes=True),
    }


def _speed(url: str, seconds: float, *, writes: bool) -> float:
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES) as pool:
        counts = pool.starmap(_use, [(url, seconds, writes)] * PROCESSES)
    return round(sum(counts) / seconds, 1)


def _use(url: str, seconds: float, writes: bool) -> int:
    async def run() -> int:
        done = 0
        with closing(Database(url)) as database:
            memory = StoredUnanswered(database, limit=3600.0)
            until = time.monotonic() + seconds

            async def one_after_the_other() -> None:
                nonlocal done
                while time.monotonic() < until:
                    digest = secrets.token_bytes(32)
                    await (memory.add(None, digest) if writes else memory.find(None, digest))
                    done += 1

            await asyncio.gather(*(one_after_the_other() for _ in range(AT_A_TIME)))
        return done

    return asyncio.run(run())


def service_use(url: str, seconds: float, questions: int) -> dict[str, Any]:
    """Transactions that one service makes: idle, a second; and more for each question."""
    with own_service("--database", url) as address:
        time.sleep(SETTLING)
        count = _counter(url)
        before, began = count(), time.monotonic()
        time.sleep(seconds)
        idle = (count() - before) / (time.monotonic() - began)
        before, began = count(), time.monotonic()
        problems = sample_problems(Split.VALIDATION, questions, seed=77)
        with httpx.Client(base_url=address, timeout=120) as client:
            for one in problems:
                body = {"problem": one.question, "alpha": 0.1}
                client.post("/solve", json=body).raise_for_status()
        time.sleep(1)  # for what is stored after the answer, and for PostgreSQL's statistics
        asked = count() - before - idle * (time.monotonic() - began)
    return {
        "idle_transactions_per_s": round(idle, 2),
        "transactions_per_question": round(asked / questions, 2),
    }


def _counter(url: str) -> Callable[[], int]:
    query = (
        "SELECT xact_commit + xact_rollback FROM pg_stat_database "
        "WHERE datname = current_database()"
    )

    def count() -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            ((found,),) = connection.execute(query)
            return int(found)

    return count
