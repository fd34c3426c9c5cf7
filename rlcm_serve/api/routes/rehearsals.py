"""`/certificates/{id}/rehearsal`: a certificate judged on live answers, without serving them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from fastapi import APIRouter

from rlcm_serve.api.access import MayAdminister, keyed, require_admin, require_metrics
from rlcm_serve.api.context import Context, ContextOfApp
from rlcm_serve.api.monitoring.rehearsals import Rehearsals
from rlcm_serve.api.routes.parameters import CertificateOfPath
from rlcm_serve.api.wire.monitoring.rehearsals import RehearsalBody, RehearsalsBody
from rlcm_serve.errors import NotFound
from rlcm_serve.store.rehearsals.figures import LevelRehearsed

router = APIRouter(tags=["monitoring"])


@router.get("/rehearsals", **keyed(require_metrics))
async def list_rehearsals(context: ContextOfApp) -> RehearsalsBody:
    """Lists rehearsals with their figures."""
    if context.rehearsals is None:
        return RehearsalsBody(rehearsals=[])
    found = []
    for digest in await context.database.threads.read(context.rehearsals.stored.all):
        with suppress(NotFound):  # a certificate that was deleted
            found.append(await rehearsal_of(context, digest[:12]))
    return RehearsalsBody(rehearsals=[one for one in found if one is not None])


@router.get("/certificates/{id}/rehearsal", **keyed(require_metrics, 404))
async def read_rehearsal(id_: CertificateOfPath, context: ContextOfApp) -> RehearsalBody:
    """Returns what a rehearsed certificate would have saved, answered and lost."""
    return await _body(context, id_)


@router.post("/certificates/{id}/rehearsal", **keyed(require_admin, 404, 409, 503))
async def start_rehearsal(
    id_: CertificateOfPath, context: ContextOfApp, caller: MayAdminister
) -> RehearsalBody:
    """Starts to judge a stored certificate on live answers. Questions are answered as before.

    It ends when the certificate is activated.
    """
    await _rehearsals(context).start(id_, caller.key_id)
    return await _body(context, id_)


@router.delete("/certificates/{id}/rehearsal", **keyed(require_admin, 404, 503))
async def stop_rehearsal(id_: CertificateOfPath, context: ContextOfApp) -> RehearsalBody:
    """Ends a rehearsal. Its figures stay."""
    await _rehearsals(context).stop(id_)
    return await _body(context, id_)


async def rehearsal_of(context: Context, id_: str) -> RehearsalBody | None:
    """The rehearsal of a certificate; None if it was never rehearsed.

    Raises:
        NotFound: there is no such certificate.
    """
    return await body_of(context, id_, await levels_of(context, id_))


async def levels_of(context: Context, id_: str) -> Sequence[LevelRehearsed]:
    """What the levels of a certificate would have done: the part that takes time.

    Raises:
        NotFound: there is no such certificate.
    """
    threads = context.database.threads
    certificate = await threads.read(context.certificates.get, id_)
    if context.rehearsals is None:
        return ()
    await context.rehearsals.written()
    alphas = [one.alpha for one in certificate.certified_levels]
    return await threads.read(context.rehearsals.stored.levels, certificate.digest, alphas)


async def body_of(
    context: Context, id_: str, levels: Sequence[LevelRehearsed]
) -> RehearsalBody | None:
    """The rehearsal of a certificate with these levels; None if it was never rehearsed."""
    if context.rehearsals is None:
        return None
    threads, stored = context.database.threads, context.rehearsals.stored
    certificate = await threads.read(context.certificates.get, id_)
    figures = await threads.read(stored.figures, certificate.digest, levels)
    return None if figures is None else RehearsalBody.of_figures(id_, figures)


async def _body(context: Context, id_: str) -> RehearsalBody:
    body = await rehearsal_of(context, id_)
    if body is None:
        raise NotFound(
            f"certificate {id_} was never rehearsed: start with `rlcm rehearsal {id_} --start` or "
            f"POST /certificates/{id_}/rehearsal"
        )
    return body


def _rehearsals(context: Context) -> Rehearsals:
    if context.rehearsals is None:
        raise NotFound("this service stores no answers: see the setting monitor")
    return context.rehearsals
