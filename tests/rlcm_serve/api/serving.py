"""The whole app around a scripted engine, its client, its errors, and that of a failed start."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from fastapi import FastAPI

from rlcm_serve.admission import ALONE_AFTER, Admission, RateLimits
from rlcm_serve.api.app import create_app
from rlcm_serve.api.context import Context
from rlcm_serve.api.monitoring.rehearsals import open_rehearsals
from rlcm_serve.api.monitoring.shadows import open_shadows
from rlcm_serve.api.server.draining import Draining
from rlcm_serve.api.server.threaded import MOST_AT_ONCE, MOST_WAITING
from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.evidence.log import open_log
from rlcm_serve.jobs import CalibrationJobs
from rlcm_serve.monitoring.running.live import open_monitoring
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.settings import Settings
from rlcm_serve.signing import TrustedKeys
from rlcm_serve.solving.first_asks import FirstAsks
from rlcm_serve.solving.service import Service
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from rlcm_serve.store.limits.stored import StoredBudgets
from rlcm_serve.store.unanswered.stored import StoredUnanswered
from rlcm_serve.telemetry.metrics import Metrics
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine

THROUGH_RAY = "TEST_THROUGH_RAY" in os.environ
"""Whether clients reach the app through Ray's proxy; see `conftest.py`."""
PATIENCE = 60
"""Seconds; this machine may be busy."""
PROBLEM = "A dial shows 3. A up 5."


class Running:
    """An app with all its parts."""

    def __init__(
        self,
        engine: ScriptedEngine,
        state: Path,
        certificates: Sequence[Path],
        settings: Settings,
        restart_policy: RestartPolicy | None = None,
    ) -> None:
        self.engine = engine
        self.stages: list[str] = []
        self.failures: list[BaseException] = []
        self.settled = asyncio.Event()
        self._entered = asyncio.Event()
        database = Database(
            settings.database or f"sqlite:///{state / 'rlcm.db'}", settings.database_wait_s
        )
        trusted = TrustedKeys.load(settings.trusted_keys or (), settings.require_signature)
        store = CertificateStore(database, trusted)
        self.service = Service(
            engine, certificates, self._on_stage, load=store.load, restart_policy=restart_policy
        )
        admission = Admission(
            settings.max_running,
            settings.max_waiting,
            share=settings.key_share,
            alone_after=ALONE_AFTER,
        )
        metrics = Metrics()
        monitoring = open_monitoring(settings, database, store)
        figures = None if monitoring is None else monitoring.betting.figures.read
        metrics.watch(admission=admission, service=self.service, monitoring=figures)
        self.context = Context(
            settings=settings,
            service=self.service,
            database=database,
            keys=Keys(database),
            admission=admission,
            aggregations=Admission(MOST_AT_ONCE, MOST_WAITING, share=settings.key_share),
            draining=Draining(),
            metrics=metrics,
            certificates=store,
            rates=RateLimits(StoredBudgets(database)),
            first_asks=FirstAsks(StoredUnanswered(database, settings.unanswered_s)),
            evidence=open_log(settings, metrics.evidence.written),
            monitoring=monitoring,
            shadows=open_shadows(settings, monitoring, admission, self.service),
            rehearsals=open_rehearsals(monitoring, store, admission, self.service),
            jobs=CalibrationJobs(database, self.service, store, settings.job_concurrency),
        )
        self.app = create_app(self.context, self.failures.append)
        self.client = client_of(self.app)

    def _on_stage(self, stage: str) -> None:
        self.stages.append(stage)
        self._entered.set()
        if stage.startswith(("ready", "failed")):
            self.settled.set()

    async def until_settled(self) -> None:
        """Lets the engine start, and waits until it is ready or has failed."""
        self.engine.started.set()
        async with asyncio.timeout(PATIENCE):
            await self.settled.wait()
            await asyncio.sleep(0)  # lets the failure propagate

    async def until(self, part: str) -> None:
        """Waits for a stage of the start that contains these words."""
        async with asyncio.timeout(PATIENCE):
            while not any(part in stage for stage in self.stages):
                self._entered.clear()
                await self._entered.wait()

    async def solve(self, **changes: Any) -> httpx.Response:
        body = {"problem": PROBLEM, "alpha": 0.1} | changes
        return await self.client.post("/solve", json=body)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error document of a response with this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["type"].startswith("urn:rlcm:problem:")
    return body


def detail_of(response: httpx.Response, status: int, name: str) -> str:
    """What an error document of the type `name` says in words."""
    body = error_of(response, status)
    assert body["type"] == f"urn:rlcm:problem:{name}"
    detail: str = body["detail"]
    return detail


@asynccontextmanager
async def starting(
    *scripts: Script,
    certificates: Sequence[Path] = (),
    settings: Settings | None = None,
    restart_policy: RestartPolicy | None = None,
    profiles: Sequence[Profile] = (),
) -> AsyncIterator[Running]:
    """The app before its engine starts; `until_settled` lets it start."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as state:
        settings = settings or Settings(state=Path(state), audit_share=0)  # nothing random
        engine = ScriptedEngine(*scripts, profiles=profiles)
        running = Running(engine, Path(state), certificates, settings, restart_policy)
        async with running.app.router.lifespan_context(running.app), running.client:
            yield running
        running.context.database.close()


@asynccontextmanager
async def serving(
    *scripts: Script,
    certificates: Sequence[Path] = (),
    settings: Settings | None = None,
    profiles: Sequence[Profile] = (),
) -> AsyncIterator[Running]:
    """The app once it is ready."""
    async with starting(
        *scripts, certificates=certificates, settings=settings, profiles=profiles
    ) as running:
        await running.until_settled()
        yield running
