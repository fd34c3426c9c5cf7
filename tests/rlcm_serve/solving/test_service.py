"""A service whose engine dies: what it says meanwhile, when it tries again, what it serves then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import ExitPolicy
from rlcm_serve.core import Question
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.errors import (
    CertificateMismatch,
    DatabaseRefused,
    EngineDead,
    ModelRefused,
    NotReady,
)
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.service import Service
from tests.rlcm_serve.scripted_engine import IDENTITY, ScriptedEngine, certificate

QUESTION = Question("A dial shows 3. A up 4.", alpha=0.1)
AWAY = DatabaseRefused("the database at db-7.internal is away", "the database is away")
CERTIFICATE = certificate({0.1: ExitPolicy(lambda_high=0.9)})


class MortalEngine(ScriptedEngine):
    """Dies when it is told to, and starts again unless it is told what is in the way."""

    def __init__(self) -> None:
        super().__init__()
        self.started.set()
        self.starts = 0
        self.trouble: list[Exception | None] = []

    async def start(self) -> None:
        self.starts += 1
        if self.trouble and (error := self.trouble.pop(0)):
            raise error
        self.dead = False
        self.killed = asyncio.Event()
        await super().start()


class Time:
    """A clock that only moves when someone sleeps, and what was slept before each attempt.

    A look at the engine lasts until `look` is set: nothing runs ahead of the test.
    """

    def __init__(self, lived: float = 0.0) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.lived = lived
        self.look = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == RestartPolicy().every:
            self.look.clear()
            await self.look.wait()
            self.now += self.lived
        else:
            self.waits.append(seconds)
            self.now += seconds
            await asyncio.sleep(0)


@pytest.fixture
def engine() -> MortalEngine:
    return MortalEngine()


@asynccontextmanager
async def running(
    engine: MortalEngine, time: Time, **settings: object
) -> AsyncIterator[tuple[Service, Stages]]:
    stages = Stages()
    restart_policy = RestartPolicy(sleep=time.sleep, clock=lambda: time.now, chance=lambda: 1.0)
    restart_policy = replace(restart_policy, **settings)  # type: ignore[arg-type]
    service = Service(engine, on_stage=stages.add, load=stages.load, restart_policy=restart_policy)
    await service.start()
    await stages.until("ready")
    try:
        yield service, stages
    finally:
        service.stop()


class Stages:
    """What a service has told, and the certificates it is given to load."""

    def __init__(self) -> None:
        self.certificates = [CERTIFICATE]
        self.loaded: list[EngineIdentity] = []
        self.trouble: list[Exception] = []
        self._told: asyncio.Queue[str] = asyncio.Queue()

    def load(self, identities: Sequence[EngineIdentity], files: Sequence[Path]) -> Guarantees:
        if self.trouble:
            raise self.trouble.pop()
        self.loaded += identities
        return Guarantees(identities, self.certificates)

    def add(self, stage: str) -> None:
        self._told.put_nowait(stage)

    async def until(self, part: str) -> str:
        """Waits for the next stage with these words."""
        while part not in (stage := await self._told.get()):
            pass
        return stage


def kill(engine: MortalEngine, time: Time) -> None:
    engine.kill()
    time.look.set()


async def test_an_engine_whose_end_cannot_be_explained_is_started_again(
    engine: MortalEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def cause_of_death() -> str:
        raise OSError("No space left on device")

    monkeypatch.setattr(engine, "cause_of_death", cause_of_death)
    time = Time()
    async with running(engine, time) as (service, stages):
        kill(engine, time)
        await stages.until("ready")
        assert service.restarts == 1
    assert "nobody knows why: OSError" in caplog.text


async def test_an_engine_that_dies_is_started_again(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time) as (service, stages):
        before = service.solver
        kill(engine, time)
        with pytest.raises(EngineDead):
            await service.check_ready()
        stage = await stages.until("attempt 1")
        with pytest.raises(NotReady, match="restarting the engine: attempt 1"):
            _ = service.solver
        with pytest.raises(NotReady, match="attempt 1"):
            await service.check_ready()
        await service.check_health()
        assert stage == "restarting the engine: attempt 1 of 10 begins in 1.0 s"
        assert service.guarantees.certificates == (CERTIFICATE,)
        assert await stages.until("ready") == "ready"
        await service.check_ready()
        assert service.restarts == 1
        assert service.solver is not before
        assert stages.loaded == [IDENTITY, IDENTITY], "certificates are read again"
        assert (await service.solver.solve(QUESTION)).guarantee is not None


async def test_questions_in_flight_end_with_the_engine(engine: MortalEngine) -> None:
    time = Time()
    engine.hold(3)
    async with running(engine, time) as (service, stages):
        asking = [asyncio.create_task(service.solver.solve(QUESTION)) for _ in range(3)]
        await engine.all_held.wait()
        kill(engine, time)
        for result in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(result, EngineDead)
        await stages.until("ready")
        engine.hold(0)
        assert (await service.solver.solve(QUESTION)).answer == "7"


async def test_attempts_wait_longer_and_longer_and_end(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time, attempts=7) as (service, stages):
        engine.trouble = [ModelRefused("no config.json")] * 7
        kill(engine, time)
        assert await stages.until("given up") == (
            "the engine is given up after 7 attempts in a row (the log says why)"
        )
        assert time.waits == [1, 2, 4, 8, 16, 30, 30]
        assert engine.starts == 8
        assert engine.stopped
        with pytest.raises(EngineDead, match="given up"):
            await service.check_health()
        with pytest.raises(NotReady, match="given up"):
            await service.check_ready()
        assert service.restarts == 0


async def test_an_attempt_may_fail_for_the_certificates(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time) as (service, stages):
        stages.certificates = [CERTIFICATE, CERTIFICATE]
        kill(engine, time)
        await stages.until("attempt 2")
        stages.certificates = [CERTIFICATE]
        await stages.until("ready")
        assert time.waits == [1, 2]
        assert service.restarts == 1


async def test_an_engine_stays_while_the_database_is_away(
    engine: MortalEngine, caplog: pytest.LogCaptureFixture
) -> None:
    time = Time()
    async with running(engine, time, attempts=3) as (_, stages):
        stages.trouble = [AWAY] * 20
        kill(engine, time)
        assert await stages.until("waiting") == (
            "restarting the engine: waiting for the database: the database is away"
        ), "anyone may read it"
        assert "db-7.internal" in caplog.text
        await stages.until("ready")
        assert engine.starts == 2
        assert time.waits == [1, 1, 2, 4, 8, 16, *[30] * 15]
        stages.trouble = [AWAY] * 20
        kill(engine, time)
        await stages.until("waiting")
        engine.kill()
        await stages.until("attempt 3")
        assert engine.starts == 3, "it died while it waited"


@pytest.mark.parametrize(("lived", "waits"), [(59.0, [1, 2, 4]), (61.0, [1, 1, 1])])
async def test_only_an_engine_that_lasts_is_forgiven(
    engine: MortalEngine, lived: float, waits: list[float]
) -> None:
    time = Time(lived)
    async with running(engine, time) as (service, stages):
        for _ in waits:
            await asyncio.sleep(0)  # to where the service looks at its engine
            kill(engine, time)
            await stages.until("ready")
        assert time.waits == waits
        assert service.restarts == len(waits)


async def test_one_that_keeps_dying_is_given_up(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time, attempts=2) as (_, stages):
        for _ in range(2):
            await asyncio.sleep(0)
            kill(engine, time)
            await stages.until("ready")
        await asyncio.sleep(0)
        kill(engine, time)
        assert (await stages.until("given up")).endswith("(it died soon after each start)")


async def test_another_model_may_come_back(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time) as (service, stages):
        outdated = Guarantees([IDENTITY], [])
        engine.identity = replace(IDENTITY, model="another")
        stages.certificates = []
        kill(engine, time)
        await stages.until("ready")
        assert stages.loaded[-1].model == "another"
        with pytest.raises(CertificateMismatch, match="its identity has changed"):
            service.use(outdated)


async def test_certificates_change_for_questions_to_come(engine: MortalEngine) -> None:
    async with running(engine, Time()) as (service, _):
        running_solver = service.solver
        service.use(Guarantees([IDENTITY], []))
        assert service.guarantees.certificates == ()
        assert (await service.solver.solve(QUESTION)).guarantee is None
        assert (await running_solver.solve(QUESTION)).guarantee is not None


async def test_certificates_wait_for_the_engine(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time) as (service, stages):
        kill(engine, time)
        await stages.until("attempt 1")
        service.use(Guarantees([IDENTITY], []))
        with pytest.raises(NotReady):
            _ = service.solver
        await stages.until("ready")
        assert service.guarantees.certificates == (CERTIFICATE,), "as they are kept"


async def test_nothing_is_started_again_once_the_service_stops(engine: MortalEngine) -> None:
    time = Time()
    async with running(engine, time) as (service, stages):
        kill(engine, time)
        await stages.until("attempt 1")
        service.stop()
        for _ in range(5):
            await asyncio.sleep(0)
        assert engine.starts == 1
        assert service.stage == "stopped"


@pytest.mark.parametrize(
    ("error", "told"),
    [(EngineDead("no /srv/model"), "the log says why"), (AWAY, "the database is away")],
)
async def test_a_first_start_that_fails_is_final(
    engine: MortalEngine, caplog: pytest.LogCaptureFixture, error: Exception, told: str
) -> None:
    engine.trouble = [error]
    service = Service(engine)
    with pytest.raises(type(error), match=str(error)):
        await service.start()
    assert str(error) in caplog.text
    with pytest.raises(EngineDead, match=f"^failed to start: {told}$"):
        await service.check_health()
    with pytest.raises(NotReady):
        _ = service.guarantees
    service.stop()
    assert engine.starts == 1


def test_waits_are_spread() -> None:
    early, late = RestartPolicy(chance=lambda: 0.0), RestartPolicy(chance=lambda: 1.0)
    assert [early.wait(failed) for failed in (0, 1, 9)] == [0.5, 1, 15]
    assert [late.wait(failed) for failed in (0, 1, 9)] == [1, 2, 30]
