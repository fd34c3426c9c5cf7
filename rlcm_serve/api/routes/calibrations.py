"""`/calibrations`: jobs that fit certificates on uploaded problems, on the live engine."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from rlcm_serve.api.access import MayAdminister, MaySolve, keyed, require_admin, require_solve
from rlcm_serve.api.context import Context, ContextOfApp
from rlcm_serve.api.error_responses import failed_in_stream
from rlcm_serve.api.event_stream import event_response, frame
from rlcm_serve.api.idempotency.header import IdempotencyKey, digest_of, place_of
from rlcm_serve.api.streams import event_stream
from rlcm_serve.api.uploads import LINES, uploaded_problems
from rlcm_serve.api.wire.calibrations import (
    CalibrationBody,
    CalibrationList,
    CalibrationQuery,
    KindResultBody,
)
from rlcm_serve.api.wire.certificates import LevelBody
from rlcm_serve.errors import NotFound, NotReady, RlcmError
from rlcm_serve.store.job import Calibration, Post

router = APIRouter(tags=["calibrations"])
JobId = Annotated[
    str, Path(alias="id", description="Id of the job.", examples=["cal_5f3a9c21d07e"])
]

PARQUET = "application/vnd.apache.parquet"
_LINE = '{"id": "p1", "problem": "A dial shows 3. A up 5.", "answer": "8", "group": "dials"}\n'
_PROBLEMS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            LINES[0]: {
                "schema": {
                    "type": "string",
                    "description": "One labelled problem per line: a JSON object with "
                    "`problem` and `answer`. Optional: `id`, `group` for problems that share a "
                    "source or template, and `kind` for the kind of question, such as its topic.",
                    "examples": [_LINE],
                }
            }
        },
    }
}
_STREAM = event_stream(
    "Server-sent events `calibration`, each with the current state of the job. The stream ends "
    "when the job ends.",
    {"calibration": CalibrationBody},
)
_TRACES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Traces in the format of `rlcm collect`, for `rlcm fit` and `rlcm verify`.",
        "content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post(
    "/calibrations",
    status_code=202,
    openapi_extra=_PROBLEMS,
    **keyed(require_admin, 404, 408, 409, 413, 415, 503),
)
async def post_calibration(
    request: Request,
    response: Response,
    context: ContextOfApp,
    caller: MayAdminister,
    query: Annotated[CalibrationQuery, Query()],
    key: IdempotencyKey,
) -> CalibrationBody:
    """Starts a calibration job on labelled problems, which must represent the expected traffic.

    The job records rollouts on the live engine at low priority, then fits a certificate.
    """
    asked = query.to_request(request.query_params.keys())
    digest = hashlib.sha256()
    problems = None
    if asked.replaces is None or _has_body(request):
        problems = await uploaded_problems(request, digest.update)
    post = None
    if key is not None:
        place = place_of(caller.key_id, request.url.path, key)
        posted = digest_of(asked.to_json().encode(), digest.digest())
        post = Post(place, posted, context.settings.idempotency_s)
    job = await context.jobs.submit(asked, problems, caller.key_id, post)
    response.headers["Location"] = f"/calibrations/{job.id}"
    return await _body(context, job)


def _has_body(request: Request) -> bool:
    return (
        "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
    )


@router.get("/calibrations", **keyed(require_solve, 503))
async def list_calibrations(context: ContextOfApp, caller: MaySolve) -> CalibrationList:
    """Lists the latest calibration jobs: all for an `admin` key, otherwise those of the key."""
    found = await context.database.threads.read(context.jobs.store.all, 100, caller)
    jobs = map(context.jobs.now, found)
    return CalibrationList(
        calibrations=[CalibrationBody.from_job(job, context.jobs.seconds_left(job)) for job in jobs]
    )


@router.get("/calibrations/{id}", **keyed(require_solve, 404, 409, 503))
async def read_calibration(id_: JobId, context: ContextOfApp, caller: MaySolve) -> CalibrationBody:
    """Returns a calibration job: its progress, log and result."""
    return await _body(context, await context.jobs.get(id_, caller))


@router.get(
    "/calibrations/{id}/events",
    response_class=Response,
    **keyed(require_solve, 404, 409, 503, responses=_STREAM),
)
async def watch_calibration(id_: JobId, context: ContextOfApp, caller: MaySolve) -> Response:
    """Streams the state of a job, now and whenever it changes, until the job ends."""
    # An unknown job is a 404, which a started stream cannot report.
    await context.jobs.get(id_, caller)
    return event_response(_events(context, id_), context.settings.heartbeat_s)


@router.get(
    "/calibrations/{id}/traces",
    response_class=Response,
    **keyed(require_admin, 404, 409, 503, responses=_TRACES),
)
async def read_traces(id_: JobId, context: ContextOfApp) -> Response:
    """Returns the traces that a job recorded, once recording is complete."""
    name = f'attachment; filename="{id_}.parquet"'
    content = await context.database.threads.read(context.jobs.store.traces, id_)
    return Response(content, media_type=PARQUET, headers={"Content-Disposition": name})


@router.delete("/calibrations/{id}", **keyed(require_admin, 404, 409, 503))
async def delete_calibration(id_: JobId, context: ContextOfApp) -> CalibrationBody:
    """Cancels an unfinished job and deletes its problems and recordings.

    A job that has ended is deleted altogether, with its problems, recordings, traces and log; the
    response is its last state. A certificate that came from it stays.
    """
    return await _body(context, await context.jobs.delete(id_))


async def _events(context: Context, id_: str) -> AsyncGenerator[bytes]:
    """The states of a job; an `error` comes last if the stream ends before the job does."""
    draining = context.draining
    try:
        async for job in context.jobs.watch(id_, is_over=lambda: draining.closed):
            body = await _body(context, job)
            yield frame(body.model_dump_json(), "calibration")
        if draining.closed and not job.state.ended:
            raise NotReady("stopping")
    except RlcmError as error:  # the status is already sent
        yield frame(failed_in_stream(error).to_json(), "error")


async def _body(context: Context, job: Calibration) -> CalibrationBody:
    verdicts = [] if job.certificate is None else await _verdicts(context, job.certificate)
    kinds = [
        KindResultBody(kind=kind, certificate=id_, verdicts=await _verdicts(context, id_))
        for kind, id_ in job.of_kinds.items()
    ]
    return CalibrationBody.from_job(job, context.jobs.seconds_left(job), verdicts, kinds)


async def _verdicts(context: Context, certificate: str) -> list[LevelBody]:
    """The levels of a certificate; none if it cannot be read, as one of an older release."""
    try:
        fitted = await context.database.threads.read(context.certificates.get, certificate)
    except NotFound:
        return []
    return [LevelBody.from_level(level) for level in fitted.levels]
