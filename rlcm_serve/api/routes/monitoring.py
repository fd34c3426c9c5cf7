"""`/monitoring`: the promise of every certificate, live; and what an admin does after an alarm."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path

from rlcm_serve.api.access import MayAdminister, keyed, require_admin, require_metrics
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.monitoring.feedback import monitoring_of
from rlcm_serve.api.monitoring.figures import monitoring_body
from rlcm_serve.api.wire.monitoring.figures import MonitoringBody
from rlcm_serve.store.activation import restore

router = APIRouter(tags=["monitoring"])
CertificateId = Annotated[
    str, Path(alias="id", description="Id of the certificate.", examples=["571b667eda0c"])
]


@router.get("/monitoring", **keyed(require_metrics, 404))
async def read_monitoring(context: ContextOfApp) -> MonitoringBody:
    """Returns what live monitoring knows: per certificate and level its test, drift and labels."""
    figures = await monitoring_of(context).figures()
    return await asyncio.to_thread(monitoring_body, context, figures)


@router.post("/certificates/{id}/restore", **keyed(require_admin, 404, 409, 422))
async def restore_certificate(
    id_: CertificateId, context: ContextOfApp, caller: MayAdminister
) -> MonitoringBody:
    """Puts the policies of a withdrawn certificate back, without a guarantee, and on record.

    Only a fresh certificate gives a guarantee again.
    """
    monitoring = monitoring_of(context)
    await restore(context.certificates, context.service, id_, caller.key_id)
    return await asyncio.to_thread(monitoring_body, context, await monitoring.figures())
