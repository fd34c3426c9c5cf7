"""What the routes work with, in one object."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from rlcm_serve.admission import RateLimits
from rlcm_serve.api.monitoring.grading import Grading
from rlcm_serve.api.server.workers import Workers
from rlcm_serve.page import Assets
from rlcm_serve.solving.cache_salts import CacheSalts
from rlcm_serve.telemetry.contract import Tracing

if TYPE_CHECKING:
    from rlcm_serve.admission import Admission
    from rlcm_serve.api.monitoring.rehearsals import Rehearsals
    from rlcm_serve.api.server.draining import Draining
    from rlcm_serve.evidence.log import EvidenceLog
    from rlcm_serve.jobs import CalibrationJobs
    from rlcm_serve.monitoring.running.live import LiveMonitoring
    from rlcm_serve.settings import Settings
    from rlcm_serve.solving.first_asks import FirstAsks
    from rlcm_serve.solving.service import Service
    from rlcm_serve.solving.shadow.runs import ShadowRuns
    from rlcm_serve.store.certificates import CertificateStore
    from rlcm_serve.store.database import Database
    from rlcm_serve.store.keys import Keys
    from rlcm_serve.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one running server.

    Uploaded traces are recomputed one at a time, under the lock `recomputing`.
    """

    settings: Settings
    service: Service
    database: Database
    keys: Keys
    admission: Admission
    aggregations: Admission
    draining: Draining
    metrics: Metrics
    certificates: CertificateStore
    jobs: CalibrationJobs
    first_asks: FirstAsks
    tracing: Tracing = field(default_factory=Tracing)
    assets: Assets = field(default_factory=Assets)
    workers: Workers = field(default_factory=Workers)
    grading: Grading = field(default_factory=Grading)
    cache_salts: CacheSalts = field(default_factory=CacheSalts)
    rates: RateLimits = field(default_factory=RateLimits)
    evidence: EvidenceLog | None = None
    monitoring: LiveMonitoring | None = None
    shadows: ShadowRuns | None = None
    rehearsals: Rehearsals | None = None
    recomputing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of the model in the API: those of the settings, else the engine's own."""
        return tuple(self.settings.served_model_names) or (self.service.engine.name,)


async def context_of(request: Request) -> Context:  # were it no coroutine, a thread would run it
    """The context of the app that serves a request."""
    context: Context = request.app.state.context
    return context


ContextOfApp = Annotated[Context, Depends(context_of)]
