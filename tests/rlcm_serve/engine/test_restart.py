"""When an engine counts as hung: only if it is silent although it was asked for a token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rlcm_serve.engine.restart import Death, RestartPolicy, Silence
from rlcm_serve.errors import EngineDead
from tests.rlcm_serve.scripted_engine import ScriptedEngine

HANG = 100.0
EVERY = 0.25


class Time:
    """A clock that moves when someone sleeps; `during` is told the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.during: Callable[[float], None] = lambda now: None

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.during(self.now)
        await asyncio.sleep(0)  # the canary's turn

    def policy(self) -> RestartPolicy:
        return RestartPolicy(every=EVERY, hang=HANG, sleep=self.sleep, clock=lambda: self.now)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def time() -> Time:
    return Time()


async def test_an_idle_engine_that_answers_its_canaries_lives(
    engine: ScriptedEngine, time: Time
) -> None:
    def die_after(now: float) -> None:
        if now >= 10 * HANG:
            engine.kill()

    time.during = die_after
    assert await time.policy().until_dead(engine) == Death(lasted=True, hung=False)
    assert time.now == 10 * HANG
    assert engine.killed_for == ""
    assert engine.canaries == pytest.approx(4 * 10, abs=1), "four within the limit, no more"


async def test_an_engine_that_does_not_answer_its_canary_is_killed(
    engine: ScriptedEngine, time: Time
) -> None:
    engine.hangs = True
    assert await time.policy().until_dead(engine) == Death(lasted=True, hung=True)
    assert time.now == HANG
    assert engine.canaries == 1
    with pytest.raises(EngineDead, match="produced nothing for 100 s"):
        await engine.check_health()


async def test_an_engine_at_work_is_not_asked(engine: ScriptedEngine, time: Time) -> None:
    def work(now: float) -> None:
        engine.outputs += now % 20 == 0
        if now >= 10 * HANG:
            engine.kill()

    time.during = work
    assert await time.policy().until_dead(engine) == Death(lasted=True, hung=False)
    assert engine.canaries == 0


async def test_a_canary_may_wait_behind_others(engine: ScriptedEngine, time: Time) -> None:
    """A full queue, or steps that each take most of the limit."""
    engine.hangs = True

    def work(now: float) -> None:
        engine.outputs += now % 90 == 0
        if now >= 10 * HANG:
            engine.kill()

    time.during = work
    assert await time.policy().until_dead(engine) == Death(lasted=True, hung=False)
    assert engine.canaries == pytest.approx(11, abs=1)


async def test_an_engine_that_stops_in_the_middle_of_its_work_is_killed(
    engine: ScriptedEngine, time: Time
) -> None:
    def work(now: float) -> None:
        engine.outputs += now < 500
        engine.hangs = now >= 500

    time.during = work
    assert (await time.policy().until_dead(engine)).hung
    assert 500 < time.now <= 500 + HANG


async def test_a_death_is_not_a_hang(engine: ScriptedEngine, time: Time) -> None:
    time.during = lambda now: engine.kill() if now >= 10 else None
    assert await time.policy().until_dead(engine) == Death(lasted=False, hung=False)


async def test_a_service_that_was_suspended_does_not_blame_its_engine(
    engine: ScriptedEngine, time: Time
) -> None:
    def sleep_through(now: float) -> None:
        if now == 50:
            time.now += 10 * HANG
        elif now > 60 + 10 * HANG:
            engine.kill()

    time.during = sleep_through
    assert not (await time.policy().until_dead(engine)).hung


async def test_a_canary_that_cannot_be_asked_says_nothing_about_the_engine(
    time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(ScriptedEngine):
        async def canary(self) -> None:
            raise ValueError("no such token")

    engine = Odd()
    time.during = lambda now: engine.kill() if now >= 5 * HANG else None
    assert not (await time.policy().until_dead(engine)).hung
    assert "could not be asked for a token" in caplog.text


async def test_a_canary_is_withdrawn_at_the_end(engine: ScriptedEngine) -> None:
    engine.hangs = True
    before = asyncio.all_tasks()
    silence = Silence(engine, HANG)
    silence.goes_on(HANG / 2)
    await asyncio.sleep(0)
    assert engine.canaries == 1
    silence.end()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
