"""Error responses: problem details (RFC 9457) that name the value, the fault and the remedy.

Routes below `/v1/` send the same errors in OpenAI's envelope.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Self

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from calibration.errors import CalibrationError
from rlcm_serve.api.wire.suggestions import UNKNOWN
from rlcm_serve.errors import (
    AccessDenied,
    BodyTooLarge,
    CertificateMismatch,
    Conflict,
    CrossOrigin,
    DatabaseBusy,
    DatabaseRefused,
    EngineDead,
    EvidenceUnavailable,
    Infeasible,
    KeyReused,
    ModelNotFound,
    NoReport,
    NotFound,
    NotReady,
    OutOfTime,
    Overloaded,
    RateLimited,
    RequestRefused,
    RlcmError,
    SignatureRefused,
    StillRunning,
    StorageFull,
    UnknownHost,
    WorkerFailed,
)
from rlcm_serve.telemetry.logs import add_fields
from rlcm_serve.wrong_values import cut, remedy_of, shown

MEDIA_TYPE = "application/problem+json"
OPENAI_PREFIX = "/v1/"
KEY_REUSED = "idempotency-key-reused"
RETRY_AFTER = 5
"""Seconds until a client may ask again while the service, or its engine, starts."""
MOST_ERRORS = 20
"""Errors of one request that are reported; a body may have thousands."""
LONGEST_IDLE = 60
"""Seconds for which a client that has to wait may keep its connection; shorter than the server's
limit on idle connections."""
MEANING = {
    400: "The request could not be parsed.",
    401: "The API key is missing or wrong.",
    403: "The API key does not permit this, or a web page of another origin sent the request.",
    404: "Nothing exists under this id or name.",
    408: "The request body did not arrive in time.",
    409: "The request conflicts with the current state; `detail` says how.",
    413: "The request body is too large.",
    415: "The content type is not supported.",
    421: "The Host header is not a name of this service.",
    422: "A value in the request is invalid; `detail` names it.",
    429: "Too many requests wait, or the key has spent a limit; retry after `Retry-After` seconds.",
    500: "An unexpected error; the service's log has the details.",
    503: "The service cannot do this now; retry after `Retry-After` seconds.",
    504: "The question was not answered within its time limit.",
}
"""Descriptions of error responses in the OpenAPI document."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """The content of an error response; `name` makes its type, `members` are further fields."""

    status: int
    name: str
    detail: str
    members: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_status(cls, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Self:
        """An error that has no name but that of its status."""
        name = HTTPStatus(status).phrase.lower().replace(" ", "-")
        return cls(status, name, detail, headers=dict(headers or {}))

    def document(self) -> dict[str, Any]:
        """The error as problem details (RFC 9457)."""
        return {
            "type": f"urn:rlcm:problem:{self.name}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.document())

    def openai_error(self) -> dict[str, Any]:
        """The error in OpenAI's envelope; the problem details are under `rlcm`."""
        errors = self.members.get("errors") or [{}]
        return {
            "error": {
                "message": self.detail,
                "type": _OPENAI_TYPES.get(self.status, "invalid_request_error"),
                "param": errors[0].get("field"),
                "code": self.name.replace("-", "_"),
                "rlcm": self.document(),
            }
        }


_DATABASE_TYPES = {
    DatabaseRefused: "database-unavailable",
    DatabaseBusy: "database-busy",
    StorageFull: "storage-full",
}
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "server_error",
}


def document_of(error: BaseException) -> ErrorDocument:
    """The content of the response to an error; an unexpected error reveals no detail."""
    match error:
        case Infeasible():
            alphas = {
                "alpha": error.alpha,
                "smallest_certifiable_alpha": error.smallest_certifiable,
                "certified_alphas": list(error.certified),
            }
            return ErrorDocument(409, "infeasible-alpha", str(error), alphas)
        case RequestValidationError():
            return _invalid(error.errors())
        case RequestRefused():
            errors = [{"field": error.field, "message": str(error)}]
            return ErrorDocument(422, "invalid-request", str(error), {"errors": errors})
        case CertificateMismatch():
            return ErrorDocument(422, "certificate-mismatch", str(error))
        case SignatureRefused():
            return ErrorDocument(422, "signature-refused", str(error))
        case CalibrationError():
            return ErrorDocument(422, "invalid-calibration", str(error))
        case UnknownHost():
            return ErrorDocument(421, "unknown-host", str(error))
        case CrossOrigin():
            return ErrorDocument(403, "cross-origin", str(error))
        case AccessDenied(known=True):
            return ErrorDocument(403, "forbidden", str(error))
        case AccessDenied():
            challenge = {"WWW-Authenticate": 'Bearer realm="rlcm-serve"'}
            return ErrorDocument(401, "unauthenticated", str(error), headers=challenge)
        case ModelNotFound():
            errors = [{"field": "model", "message": str(error)}]
            return ErrorDocument(404, "model-not-found", str(error), {"errors": errors})
        case NoReport():
            return ErrorDocument(404, "no-report-data", str(error))
        case NotFound():
            return ErrorDocument(404, "not-found", str(error))
        case KeyReused():
            return ErrorDocument(422, KEY_REUSED, str(error))
        case StillRunning():
            return ErrorDocument(409, "still-running", str(error), headers=_retry(RETRY_AFTER))
        case Conflict():
            return ErrorDocument(409, "conflict", str(error))
        case BodyTooLarge():
            return ErrorDocument(413, "body-too-large", str(error))
        case Overloaded():
            name = "rate-limit-exceeded" if isinstance(error, RateLimited) else "overloaded"
            # OpenAI's clients read the header in milliseconds first.
            exact = {"retry-after-ms": str(math.ceil(error.retry_after * 1000))}
            return ErrorDocument(429, name, str(error), headers=_retry(error.retry_after) | exact)
        case EngineDead():
            return ErrorDocument(503, "engine-dead", str(error), headers=_retry(RETRY_AFTER))
        case WorkerFailed():
            return ErrorDocument(503, "worker-failed", str(error), headers=_retry(RETRY_AFTER))
        case EvidenceUnavailable():
            why = "the record of an answer cannot be written, so no question is answered"
            return ErrorDocument(503, "evidence-unavailable", why, headers=_retry(RETRY_AFTER))
        case NotReady():
            members = {"stage": error.stage}
            if error.state is not None:
                members["state"] = error.state
            return ErrorDocument(503, "not-ready", str(error), members, _retry(RETRY_AFTER))
        case DatabaseRefused():
            # Its message names the database: only the operator may see it.
            return ErrorDocument(
                503, _DATABASE_TYPES[type(error)], error.public, headers=_retry(RETRY_AFTER)
            )
        case OutOfTime():
            reason = error.no_guarantee_reason
            cut = {} if reason is None else {"guarantee": None, "no_guarantee_reason": reason}
            return ErrorDocument(504, "out-of-time", str(error), cut)
        case HTTPException():  # unknown paths, wrong methods, wrong media types
            return ErrorDocument.of_status(error.status_code, str(error.detail), error.headers)
    return ErrorDocument(500, "internal", "internal error; see the service's log")


def report_unexpected(error: BaseException) -> None:
    """Logs an error whose details the caller does not get, with its traceback.

    A database that is busy is no fault: the caller tries again.
    """
    if isinstance(error, DatabaseBusy):
        _log.warning("%s", error)
    elif document_of(error).status == 500 or isinstance(error, DatabaseRefused):
        _log.error("unexpected error", exc_info=error)


def failed_in_stream(error: BaseException) -> ErrorDocument:
    """What a stream says of its error, once its status is sent; the access line says it too."""
    report_unexpected(error)
    found = document_of(error)
    add_fields(error=found.name, error_status=found.status)
    return found


def response_of(path: str, error: Exception) -> Response:
    """The response to a request for `path` that ended in `error`."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)  # nobody reads it; the access log counts it
    found = document_of(error)
    add_fields(error=found.name)
    if path.startswith(OPENAI_PREFIX):
        if found.status == 422 and found.name != KEY_REUSED:
            # OpenAI's clients expect 400 for an invalid request.
            found = replace(found, status=400)
        # OpenAI's clients retry these statuses by default; a retry would fail again.
        is_final = found.status in (409, 504) and "Retry-After" not in found.headers
        retry = {"x-should-retry": "false"} if is_final else {}
        return JSONResponse(found.openai_error(), found.status, found.headers | retry)
    return JSONResponse(found.document(), found.status, found.headers, MEDIA_TYPE)


def error_schema() -> dict[str, Any]:
    """JSON schema of an error response."""
    members = {
        "type": {"type": "string", "description": "Stable name of the error.", "format": "uri"},
        "title": {"type": "string", "description": "The HTTP status in words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What is wrong, and how to fix it."},
    }
    examples = _example_document()
    properties = {
        name: {**schema, "examples": [examples[name]]} for name, schema in members.items()
    }
    return {"type": "object", "properties": properties, "required": list(members)}


def documented(*statuses: int, **members: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """Error responses with these statuses; `members` are schemas of further fields."""
    schema = error_schema()
    schema["properties"] |= members
    schema["required"] += members
    return {
        status: {"description": MEANING[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def add_handlers(app: FastAPI) -> None:
    """Makes the app answer every error with an error response."""

    async def handle(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            _name_remedy(error, request)
        if isinstance(error, RlcmError):  # unexpected errors reach the middleware
            report_unexpected(error)
        return response_of(request.url.path, error)

    kinds = (RlcmError, CalibrationError, RequestValidationError, HTTPException, ClientDisconnect)
    for kind in (*kinds, Exception):
        app.add_exception_handler(kind, handle)


def _name_remedy(error: HTTPException, request: Request) -> None:
    """Says more about an unknown path or a wrong method than the framework does."""
    path = request.url.path
    if error.status_code == 405:
        allowed = ", ".join(_allowed(request))
        error.headers = {"Allow": allowed}
        error.detail = f"{path} takes no {request.method}: send {allowed}"
    elif error.status_code == 404 and error.detail == HTTPStatus.NOT_FOUND.phrase:
        error.detail = f"there is no path {path!r} here: GET /openapi.json lists the paths"


def _allowed(request: Request) -> list[str]:
    """The methods that a path is served for; the framework names those of its first route only."""
    routes = [
        route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE
    ]
    return sorted({method for route in routes for method in route.methods})


def _example_document() -> dict[str, Any]:
    refused = RequestRefused("alpha", "alpha is 1.5: give an accepted risk between 0 and 1")
    return document_of(refused).document()


def _invalid(found: Sequence[Mapping[str, Any]]) -> ErrorDocument:
    """422: the request is not what the route takes. Only the first errors are reported."""
    errors = [_field_error(one) for one in found[:MOST_ERRORS]]
    details = [
        f"{error['field']} is {error['value']}: {error['message']}"
        if "value" in error
        else f"{error['field']}: {error['message']}"
        for error in errors
    ]
    if more := len(found) - len(errors):
        details.append(f"and {more} more errors")
    return ErrorDocument(422, "invalid-request", "; ".join(details), {"errors": errors})


def _retry(seconds: float) -> dict[str, str]:
    """Clients that come back later than this get a new connection, as the old one may be closing
    just then."""
    closing = {"Connection": "close"} if seconds > LONGEST_IDLE else {}
    return {"Retry-After": str(math.ceil(seconds))} | closing


def _field_error(found: Mapping[str, Any]) -> dict[str, str]:
    """The field, the value it has, and what it should be."""
    is_malformed = found["type"] == "json_invalid"  # at a position, not in a field
    name = "body" if is_malformed else _named(found["loc"][1:])
    message = remedy_of(found)
    # The input is what surrounds the fault, or no matter.
    if is_malformed or found["type"] in ("value_error", "missing", UNKNOWN):
        return {"field": name, "message": message}
    return {"field": name, "value": shown(found["input"]), "message": message}


def _named(place: Sequence[str | int]) -> str:
    """The place of a value in the body, such as `messages[0].content`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in place)
    return "".join(parts).removeprefix(".") or "body"
