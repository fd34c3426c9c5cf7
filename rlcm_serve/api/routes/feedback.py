"""`/feedback` and `/audit`: labels of answers, and answers that wait for one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from rlcm_serve.api.access import MaySolve, keyed, require_solve
from rlcm_serve.api.bodies import parse_body
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.media import JSON, media_type, unsupported
from rlcm_serve.api.monitoring.feedback import monitoring_of, take_labels
from rlcm_serve.api.wire.base import inline_schema
from rlcm_serve.api.wire.certificates import iso
from rlcm_serve.api.wire.monitoring.feedback import (
    MOST_ITEMS,
    AuditItem,
    AuditResponse,
    FeedbackItem,
    FeedbackRequest,
    FeedbackResponse,
)
from rlcm_serve.errors import RequestRefused
from rlcm_serve.store.answers.table import AnswerRow

router = APIRouter(tags=["monitoring"])

NDJSON = "application/x-ndjson"
_LINE = FeedbackItem(id="chatcmpl-019aae2fb9c09f86d081884c7d659a2f", right=True)
_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": inline_schema(FeedbackRequest)},
            NDJSON: {
                "schema": {
                    "type": "string",
                    "description": "One label per line, as a JSON object with the same fields as "
                    "in `answers`.",
                    "examples": [_LINE.model_dump_json(exclude_none=True) + "\n"],
                }
            },
        },
    }
}


@router.post(
    "/feedback",
    response_model=FeedbackResponse,
    openapi_extra=_REQUEST,
    **keyed(require_solve, 404, 408, 413, 415, 422, 429),
)
async def post_feedback(
    request: Request, context: ContextOfApp, caller: MaySolve
) -> FeedbackResponse:
    """Takes labels of answers, from the key that asked and from `admin` keys.

    Labels may come late, and may be corrected: the last one is shown, and every change is kept.
    """
    kind = media_type(request)
    if kind not in (JSON, NDJSON):
        raise unsupported(request, JSON, NDJSON)
    body = await request.body()
    read = _of_lines if kind == NDJSON else _of_json
    items = await context.workers.run(caller.key_id, len(body), read, body)
    return await take_labels(context, caller, items)


@router.get("/audit", response_model=AuditResponse, **keyed(require_solve, 404, 422))
async def read_audit(
    context: ContextOfApp,
    caller: MaySolve,
    limit: Annotated[
        int,
        Query(ge=0, le=1000, description="Largest number of answers to list.", examples=[100]),
    ] = 100,
) -> AuditResponse:
    """Lists answers that were drawn for audit and wait for a label, the oldest first.

    A key sees its own; `admin` keys see all.
    """
    monitoring = monitoring_of(context)
    await monitoring.writer.written()
    waiting, oldest = await context.database.threads.read(monitoring.answers.waiting, caller, limit)
    return AuditResponse(waiting=waiting, answers=[_item(row) for row in oldest])


def _of_json(body: bytes) -> list[FeedbackItem]:
    request: FeedbackRequest = parse_body(FeedbackRequest, body)
    return request.answers


def _of_lines(body: bytes) -> list[FeedbackItem]:
    lines = [line for line in body.splitlines() if line.strip()]
    if not 0 < len(lines) <= MOST_ITEMS:
        raise RequestRefused(
            "body", f"the body has {len(lines)} lines: send 1 to {MOST_ITEMS} labels at a time"
        )
    return [parse_body(FeedbackItem, line) for line in lines]


def _item(row: AnswerRow) -> AuditItem:
    return AuditItem(
        id=row.id,
        time=iso(row.time),
        due=iso(row.due),
        key=row.key_id,
        kind=row.kind,
        profile=row.profile,
        certificate=None if row.certificate is None else row.certificate[:12],
        alpha=row.alpha,
        confidence=row.confidence,
        question=row.question,
        answer=row.answer,
    )
