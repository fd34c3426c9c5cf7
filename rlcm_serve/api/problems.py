"""Errors as problem details (RFC 9457): what was wrong, with what value, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rlcm_serve.errors import EngineDead, Infeasible, NotReady, RequestRefused

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 5
"""Seconds until a client may ask again while the service starts."""
_LONGEST_VALUE = 80


def problem(
    status: int,
    name: str,
    detail: str,
    headers: dict[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """A problem document; `name` makes its type, `members` are its further fields."""
    body = {
        "type": f"urn:rlcm:problem:{name}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **members,
    }
    return JSONResponse(body, status, headers, media_type=MEDIA_TYPE)


async def infeasible(request: Request, error: Infeasible) -> JSONResponse:
    """409: no policy keeps the alpha asked for."""
    return problem(
        409,
        "infeasible-alpha",
        str(error),
        alpha=error.alpha,
        smallest_certifiable_alpha=error.smallest_certifiable,
        certified_alphas=list(error.certified),
    )


async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """422: the body is not what `/solve` takes."""
    errors = [_field_error(found) for found in error.errors()]
    detail = "; ".join(
        f"{found['field']} is {found['value']}: {found['message']}"
        if "value" in found
        else f"{found['field']}: {found['message']}"
        for found in errors
    )
    return problem(422, "invalid-request", detail, errors=errors)


async def refused(request: Request, error: RequestRefused) -> JSONResponse:
    """422: the question cannot be answered as asked."""
    errors = [{"field": error.field, "message": str(error)}]
    return problem(422, "invalid-request", str(error), errors=errors)


async def engine_dead(request: Request, error: EngineDead) -> JSONResponse:
    """503: nothing will be answered until a restart."""
    return problem(503, "engine-dead", str(error))


async def not_ready(request: Request, error: NotReady) -> JSONResponse:
    """503: not yet."""
    headers = {"Retry-After": str(RETRY_AFTER)}
    return problem(503, "not-ready", str(error), headers=headers, stage=error.stage)


async def client_gone(request: Request, error: ClientDisconnect) -> Response:
    """Nobody reads this; it keeps a lost client out of the error log."""
    return Response(status_code=499)


async def unexpected(request: Request, error: Exception) -> JSONResponse:
    """500: a fault of the service, whose traceback goes to its log."""
    return problem(500, "internal", "the service made a mistake; its log says more")


async def http_error(request: Request, error: HTTPException) -> JSONResponse:
    """What the framework refuses by itself: unknown paths, wrong methods."""
    headers = dict(error.headers or {})
    return problem(error.status_code, "http", str(error.detail), headers=headers)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These statuses as OpenAPI responses."""
    names = ("type", "title", "status", "detail")
    members = {name: {"type": "integer" if name == "status" else "string"} for name in names}
    schema = {"type": "object", "properties": members, "required": list(names)}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def add_handlers(app: FastAPI) -> None:
    """Has the app answer every error as a problem document."""
    handlers: list[tuple[type[Exception], Any]] = [
        (Infeasible, infeasible),
        (RequestValidationError, invalid),
        (RequestRefused, refused),
        (EngineDead, engine_dead),
        (NotReady, not_ready),
        (HTTPException, http_error),
        (ClientDisconnect, client_gone),
        (Exception, unexpected),
    ]
    for error, handler in handlers:
        app.add_exception_handler(error, handler)


def _field_error(found: Mapping[str, Any]) -> dict[str, str]:
    """The field, the value it has, and what it should be."""
    field = ".".join(part for part in found["loc"][1:] if isinstance(part, str)) or "body"
    if found["type"] in ("missing", "json_invalid"):  # the input is what surrounds the fault
        return {"field": field, "message": found["msg"]}
    value = repr(found["input"])
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
    return {"field": field, "value": shown, "message": found["msg"]}
