"""The exposition of a service to which everything has happened once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from calibration import ExitPolicy
from rlcm_serve.admission import Admission
from rlcm_serve.solving.service import Service
from rlcm_serve.store.job import JobState
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.request_metrics import ServedRequest
from tests.rlcm_serve.scripted_engine import ScriptedEngine, certificate
from tests.rlcm_serve.telemetry.figures import figures_of
from tests.rlcm_serve.telemetry.solutions import QUESTION, solution


def exposition() -> str:
    """What `/metrics` says then, as text."""
    return asyncio.run(_exposition())


async def _exposition() -> str:
    engine, metrics = ScriptedEngine(), Metrics()
    engine.started.set()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.json"
        made = certificate({0.1: ExitPolicy()})
        made.save(file)
        service = Service(engine, [file])
        metrics.watch(
            admission=Admission(1, 1),
            aggregations=Admission(1, 1),
            service=service,
            jobs=lambda: {JobState.DONE: 1},
            monitoring=lambda: figures_of(made),
        )
        metrics.requests.ended(ServedRequest("/solve", "POST", 200, 1.0, 0.5, client_gone=True))
        metrics.questions.solved(QUESTION, solution(), 1.0)
        metrics.questions.failed("internal")
        await service.start()
        page = metrics.page()[0].decode()
        service.stop()
    return page
