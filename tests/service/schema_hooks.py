"""Rules for schemathesis that the schema of this service cannot express."""

import json
import os
import re
from typing import Any

import httpx
import schemathesis
from schemathesis import Case, CheckContext, Response
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import TestPhase

PROBLEMS = 48
"""Enough for a certificate at the default levels."""


def answers(text: str) -> list[dict[str, Any]]:
    """Rows for `/aggregate`."""
    parts = text.split("0")
    return [{"problem_id": part[:3] or "p", "answer": part, "confidence": 0.5} for part in parts]


def labels(text: str) -> list[dict[str, Any]]:
    """Rows for `/feedback`."""
    return [{"id": part[:3] or "p", "right": True} for part in text.split("0")]


def problems(text: str) -> list[dict[str, Any]]:
    """Rows for `/calibrations`, some with a kind."""
    kinds = [{"kind": text[:3]} if text.strip() else {}, {}]
    return [
        {"problem": f"{text} {number}", "answer": text or "8", **kinds[number % 2]}
        for number in range(PROBLEMS)
    ]


ROWS = {"/aggregate": answers, "/feedback": labels, "/calibrations": problems}

NOT_IN_THE_SCHEMA = (
    "give a whole number",  # 1.0 is an integer in JSON Schema, but not here
    "the problem is blank",  # in a message
    "the last message must be the user's",
    "the prompt has over 100 tokens",
    "this engine is superstitious",
    "timeout_s is .*this service allows",
    "the signature is not a DSSE envelope",
    "the content does not match its digest|its format is not 'rlcm-certificate'",
    "max_completion_tokens is .* and max_tokens .*: they mean the same here",
    "not JSON",
    "the address holds the character U\\+0000",
    "the Idempotency-Key has|this Idempotency-Key came with another request",
    "the body, line",
    "leave .* to test on",
    "which is not served here",
    "max_group_size is .*has no effect where each group counts the same",
    "cannot be combined with sequential|the method .* learns from a part of the problems",
    "only a job that is done can be extended|was not withdrawn: leave out replace",
    "the levels already bound lost answers|the loss .* is not 0 or 1",
    "no problem has a (kind|group)",
    "cannot be bounded beside the levels|is bounded twice",
    "is fixed by (job|certificate) ",  # in a calibration that extends or replaces another
    "rollouts is .* and n is ",
    "the bound is .*: give a risk",
    "leave out top_p, or set vote to filtered",
    "confidence is missing: the vote uses it as a weight",
    "reference is .*(blank|give a problem one reference|null)",
)


@schemathesis.hook
def after_call(context: schemathesis.HookContext, case: Case, response: Response) -> None:
    """Cancels an accepted job, but for those of the stateful phase.

    A job takes seconds, one after the other, and a request for its events as long.
    """
    is_stateful = case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL
    if case.method == "POST" and response.status_code == 202 and not is_stateful:
        service = response.request.url.partition("/calibrations")[0]
        key = {"X-API-Key": os.environ["RLCM_TEST_KEY"]}
        cancelled = httpx.delete(service + response.headers["location"][0], headers=key)
        cancelled.raise_for_status()


@schemathesis.serializer("application/x-ndjson")
def lines(context: schemathesis.SerializationContext, value: object) -> bytes:
    """Turns most valid texts into rows, as the schema only requires a text."""
    text, meta = str(value), context.case.meta
    is_positive = meta is not None and meta.generation.mode is GenerationMode.POSITIVE
    path = context.case.operation.path
    is_row = text.startswith("{") and path != "/calibrations"  # takes more than one
    if not is_positive or is_row or len(text) % 4 == 3:
        return text.encode()
    rows = ROWS[path](text)
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def problem_of(response: Response, case: Case) -> dict[str, Any]:
    """The document of an error; OpenAI's routes have it inside their own format."""
    found: dict[str, Any] = response.json()
    return found["error"]["rlcm"] if case.path.startswith("/v1/") else found


@schemathesis.check
def refusal_says_where(context: CheckContext, response: Response, case: Case) -> None:
    """Refusals of invalid input name the field."""
    if response.status_code == 422:
        problem = problem_of(response, case)
        fields = [error["field"] for error in problem.get("errors", [])]
        is_told = bool(fields) and all(fields)
        assert is_told or problem["type"] != "urn:rlcm:problem:invalid-request", problem


@schemathesis.check
def errors_are_problems(context: CheckContext, response: Response, case: Case) -> None:
    """Every error is a document that names its type, in one of the two formats."""
    if response.status_code < 400 or case.method == "HEAD":
        return
    problem = problem_of(response, case)
    if not case.path.startswith("/v1/"):
        assert response.headers["content-type"] == ["application/problem+json"], response.headers
    assert problem["status"] == response.status_code
    assert problem["type"].startswith("urn:rlcm:problem:")


@schemathesis.check
def allowed_is_taken(context: CheckContext, response: Response, case: Case) -> None:
    """Input that the schema allows is refused only for reasons that no schema can express."""
    if response.status_code not in (400, 422) or case.meta is None:
        return
    if case.meta.generation.mode is GenerationMode.POSITIVE:
        reason = problem_of(response, case)["detail"]
        assert any(re.search(known, reason) for known in NOT_IN_THE_SCHEMA), reason
