"""`/monitoring`: the promise of every certificate, live; recent answers; and what an admin does
after an alarm.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from rlcm_serve.api.access import (
    MayAdminister,
    MayReadMetrics,
    keyed,
    require_admin,
    require_metrics,
)
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.monitoring.answers import recent_answer
from rlcm_serve.api.monitoring.feedback import monitoring_of
from rlcm_serve.api.monitoring.figures import monitoring_body
from rlcm_serve.api.routes.parameters import CertificateOfPath
from rlcm_serve.api.wire.monitoring.answers import RecentAnswers
from rlcm_serve.api.wire.monitoring.figures import MonitoringBody
from rlcm_serve.store.activation import restore
from rlcm_serve.store.answers.recent import LabelFilter, Wanted, recent_answers

router = APIRouter(tags=["monitoring"])
Outcome = Literal["answered", "abstained"]


@router.get("/monitoring", **keyed(require_metrics, 404))
async def read_monitoring(context: ContextOfApp) -> MonitoringBody:
    """Returns what live monitoring knows: per certificate and level its test, drift and labels."""
    figures = await monitoring_of(context).figures()
    return await asyncio.to_thread(monitoring_body, context, figures)


@router.get("/answers", **keyed(require_metrics, 404))
async def read_answers(
    context: ContextOfApp,
    caller: MayReadMetrics,
    limit: Annotated[
        int, Query(ge=1, le=500, description="Largest number of answers to list.", examples=[50])
    ] = 50,
    before: Annotated[
        int | None,
        Query(ge=0, le=2**53, description="`next` of the page before.", examples=[8412]),
    ] = None,
    certificate: Annotated[
        str | None,
        Query(
            pattern="^[0-9a-f]{12}$",
            description="Only answers that the certificate with this id covers.",
            examples=["571b667eda0c"],
        ),
    ] = None,
    alpha: Annotated[
        float | None, Query(description="Only answers at this certified level.", examples=[0.1])
    ] = None,
    outcome: Annotated[
        Outcome | None,
        Query(description="Only answers, or only abstentions.", examples=["answered"]),
    ] = None,
    audited: Annotated[
        bool | None,
        Query(description="Only answers that were drawn for audit, or were not.", examples=[True]),
    ] = None,
    label: Annotated[
        LabelFilter | None,
        Query(
            description="Only answers whose last label says so; `none`: only those without one.",
            examples=["wrong"],
        ),
    ] = None,
) -> RecentAnswers:
    """Lists recent answers and abstentions, the newest first.

    An answer is listed a moment after it was given. Texts are shown to the key that asked and to
    `admin` keys, if the service keeps them.
    """
    answered = None if outcome is None else outcome == "answered"
    wanted = Wanted(limit, before, certificate, alpha, answered, audited, label)
    monitoring_of(context)
    threads = context.database.threads
    listed, earlier = await threads.read(recent_answers, context.database, wanted)
    return RecentAnswers(
        answers=[recent_answer(context, caller, one) for one in listed], next=earlier
    )


@router.post("/certificates/{id}/restore", **keyed(require_admin, 404, 409))
async def restore_certificate(
    id_: CertificateOfPath, context: ContextOfApp, caller: MayAdminister
) -> MonitoringBody:
    """Puts the policies of a withdrawn certificate back, without a guarantee, and on record.

    Only a fresh certificate gives a guarantee again.
    """
    monitoring = monitoring_of(context)
    await restore(context.certificates, context.service, id_, caller.key_id)
    return await asyncio.to_thread(monitoring_body, context, await monitoring.figures())
