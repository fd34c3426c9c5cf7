"""Rules for schemathesis that the schema of this service cannot express."""

import json
import re
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, Response
from schemathesis.generation import GenerationMode

ROWS = {
    "/aggregate": lambda text: {"problem_id": text[:3] or "p", "answer": text, "confidence": 0.5},
    "/calibrations": lambda text: {"problem": text, "answer": text},
}

NOT_IN_THE_SCHEMA = (
    "Input should be a valid integer",  # 1.0 is an integer in JSON Schema, but not here
    "the problem is blank",  # in a message
    "the last message must be the user's",
    "the prompt has over 100 tokens",
    "this engine is superstitious",
    "timeout_s is .*this service allows",
    "the signature is not a DSSE envelope",
    "the content does not match its digest|its format is not 'rlcm-certificate'",
    "max_completion_tokens is .* and max_tokens .*: they mean the same here",
    "not JSON",
    "the Idempotency-Key has|this Idempotency-Key came with another request",
    "the body, line",
    "leave . to test on",
    "rollouts is . and n is .",
    "leave out top_p, or set vote to filtered",
    "confidence is missing: the vote uses it as a weight",
    "reference is .*(blank|give a problem one reference|null)",
)


@schemathesis.serializer("application/x-ndjson")
def lines(context: schemathesis.SerializationContext, value: object) -> bytes:
    """Turns most valid texts into rows, as the schema only requires a text."""
    text, meta = str(value), context.case.meta
    is_positive = meta is not None and meta.generation.mode is GenerationMode.POSITIVE
    if not is_positive or text.startswith("{") or len(text) % 4 == 3:
        return text.encode()
    row = ROWS[context.case.operation.path]
    return "".join(f"{json.dumps(row(part))}\n" for part in text.split("0")).encode()


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
