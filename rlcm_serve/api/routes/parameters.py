"""Parameters that several routes take, and the refusal of those that a route does not take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from rlcm_serve.api.access import METRICS_PATH, is_open
from rlcm_serve.api.error_responses import OPENAI_PREFIX
from rlcm_serve.api.wire.suggestions import UNKNOWN
from rlcm_serve.api.wire.terms import CERTIFICATE_TEXT
from rlcm_serve.errors import RequestRefused
from rlcm_serve.suggestions import did_you_mean

CertificateOfPath = Annotated[
    str, Path(alias="id", description=CERTIFICATE_TEXT, examples=["571b667eda0c"])
]


async def require_known(request: Request) -> None:
    """Returns if a request says only what its route takes; for `Depends`.

    Otherwise a misspelt `dry_run`, or one in a body that nobody reads, would change what it was to
    try. OpenAI's clients, probes, browsers and Prometheus may send parameters of their own.

    Raises:
        RequestValidationError: the query has parameters that the route does not take.
        RequestRefused: a change is asked for with a body, and the route takes none.
    """
    path, route = request.url.path, request.scope["route"]
    if is_open(path) or path == METRICS_PATH or path.startswith(OPENAI_PREFIX):
        return
    known = set(_query_of(route))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise RequestValidationError([_unknown(name, known) for name in unknown])
    changes = request.method not in ("GET", "HEAD")
    if changes and not _takes_body(route) and await _has_body(request):
        remedy = f", and give {' and '.join(sorted(known))} in the query" if known else ""
        raise RequestRefused("body", f"{request.method} {path} takes no body: leave it out{remedy}")


def _query_of(route: APIRoute) -> Iterator[str]:
    """The names of a route's query parameters, and of those of what it depends on."""
    for field in get_flat_dependant(route.dependant).query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (one.alias or name for name, one in kind.model_fields.items())
        else:
            yield field.alias


def _unknown(name: str, known: set[str]) -> dict[str, Any]:
    remedy = did_you_mean(name, known, "leave it out")
    return {"type": UNKNOWN, "loc": ("query", name), "msg": f"unknown query parameter: {remedy}"}


def _takes_body(route: APIRoute) -> bool:
    """Whether FastAPI reads a body, or the route does so itself and describes it."""
    return route.body_field is not None or "requestBody" in (route.openapi_extra or {})


async def _has_body(request: Request) -> bool:
    """Whether a body has any byte. No more of it is read."""
    async for part in request.stream():
        if part:
            return True
    return False
