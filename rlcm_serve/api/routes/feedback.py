"""`/feedback` and `/audit`: labels of answers, and answers that wait for one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError

from rlcm_serve.api.access import MayLabel, keyed, require_label
from rlcm_serve.api.bodies import parse_body
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.media import JSON, NDJSON, media_type, unsupported
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
from rlcm_serve.store.answers.recent import WaitingAnswer, waiting_answers
from rlcm_serve.wrong_values import remedy_of

router = APIRouter(tags=["monitoring"])

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
    **keyed(require_label, 404, 408, 413, 415, 429),
)
async def post_feedback(
    request: Request, context: ContextOfApp, caller: MayLabel
) -> FeedbackResponse:
    """Takes labels of answers.

    A key with the scope `label` or `admin` may label all answers, another key its own; by default,
    labels of the first alone enter the test (setting `tested_labels`). Labels may come late, and
    may be corrected: the last one is shown, and every change is kept.
    """
    kind = media_type(request)
    if kind not in (JSON, NDJSON):
        raise unsupported(request, JSON, NDJSON)
    body = await request.body()
    read = _of_lines if kind == NDJSON else _of_json
    items = await context.workers.run(caller.key_id, len(body), read, body)
    return await take_labels(context, caller, items)


@router.get("/audit", response_model=AuditResponse, **keyed(require_label, 404))
async def read_audit(
    context: ContextOfApp,
    caller: MayLabel,
    limit: Annotated[
        int,
        Query(ge=0, le=1000, description="Largest number of answers to list.", examples=[100]),
    ] = 100,
) -> AuditResponse:
    """Lists answers that were drawn for audit and wait for a label, the oldest first.

    A key sees its own; keys with the scope `label` or `admin` see all. These also see audited
    questions on which the service abstained: under `regret` where the full budget gave an answer,
    as the label says whether that one is right; and after a withdrawal all of them, as a
    certificate that is fitted on audited questions needs their references.
    """
    monitoring = monitoring_of(context)
    await monitoring.writer.written()
    database = context.database
    waiting, oldest = await database.threads.read(waiting_answers, database, caller, limit)
    return AuditResponse(waiting=waiting, answers=[_item(one) for one in oldest])


def _of_json(body: bytes) -> list[FeedbackItem]:
    request: FeedbackRequest = parse_body(FeedbackRequest, body)
    return request.answers


def _of_lines(body: bytes) -> list[FeedbackItem]:
    lines = [each for each in enumerate(body.splitlines(), start=1) if each[1].strip()]
    if not 0 < len(lines) <= MOST_ITEMS:
        raise RequestRefused(
            "body", f"the body has {len(lines)} lines: send 1 to {MOST_ITEMS} labels at a time"
        )
    return [_of_line(number, line) for number, line in lines]


def _of_line(number: int, line: bytes) -> FeedbackItem:
    where = f"the body, line {number}"
    try:
        item: FeedbackItem = parse_body(FeedbackItem, line)
    except RequestRefused as error:
        raise RequestRefused(error.field, f"{where}: {error}") from error
    except RequestValidationError as error:
        first = error.errors()[0]
        field = next(
            (part for part in first["loc"] if isinstance(part, str) and part != "body"), ""
        )
        message = f"{field}: {remedy_of(first)}" if field else remedy_of(first)
        raise RequestRefused(field or "body", f"{where}: {message}") from error
    return item


def _item(waiting: WaitingAnswer) -> AuditItem:
    row = waiting.row
    return AuditItem(
        id=row.id,
        time=iso(row.time),
        due=iso(row.due),
        key=row.key_id,
        kind=row.kind,
        profile=row.profile,
        certificate=None if row.certificate is None else row.certificate[:12],
        alpha=row.alpha,
        abstained=not row.answered,
        confidence=row.confidence,
        question=row.question,
        answer=row.answer,
        full_budget_answer=waiting.full_answer,
        full_budget_differs=waiting.disagrees,
    )
