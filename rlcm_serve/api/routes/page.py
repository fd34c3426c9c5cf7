"""`/` and `/page/`: the browser page. Open to anyone, and not in the OpenAPI document."""

from __future__ import annotations

import asyncio
import re
from importlib.metadata import version
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from rlcm_serve.api.context import Context, ContextOfApp
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.errors import NotFound, NotReady
from rlcm_serve.page.assets import INDEX, Asset
from rlcm_serve.page.demo import demo_of

router = APIRouter(include_in_schema=False)

EMBEDDED = "embedded"

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""No content from other hosts, no inline code, no framing."""
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # File names carry no version, so browsers revalidate each time and mostly get a 304.
    "Cache-Control": "no-cache",
}
_ETAG = re.compile(r'(?:W/)?"([^"]*)"')
_GZIPPED = "-gz"


@router.head("/")
@router.get("/")
def index(request: Request, context: ContextOfApp) -> Response:
    """The page."""
    return _response(request, context.assets.get(INDEX))


@router.head("/page/about")
@router.get("/page/about")
async def about(context: ContextOfApp) -> Response:
    """What the page needs to know before the user enters a key."""
    named = context.settings.served_model_names
    model = context.service.engine.name
    found = {
        "model": named[0] if named else _plain(model),
        "version": version("rlcm-serve"),
        "keys": context.settings.keys_needed,
        "examples": _is_embedded(model),
        "heartbeat_s": context.settings.heartbeat_s,
        "demo": await asyncio.to_thread(_demo, context) is not None,
    }
    return JSONResponse(found, headers={"Cache-Control": "no-store"})


@router.head("/page/demo")
@router.get("/page/demo")
def demo(request: Request, context: ContextOfApp) -> Response:
    """Recorded questions for the page's demo, before the engine is ready and without a key."""
    found = _demo(context)
    if found is None:
        raise NotFound("there are no recorded questions that may be shown without a key")
    return _response(request, found)


@router.head("/page/{path:path}")
@router.get("/page/{path:path}")
def asset(path: str, request: Request, context: ContextOfApp) -> Response:
    """A file of the page."""
    return _response(request, context.assets.get(path))


def _demo(context: Context) -> Asset | None:
    """The demo's data. Where keys are needed, only those of the embedded model are for anyone.

    It shows a promise, so it needs a certificate whose promise is given, once that is known.
    """
    if context.settings.keys_needed and not _is_embedded(context.service.engine.name):
        return None
    try:
        given = context.service.guarantees.given
    except NotReady:
        given = None
    return demo_of(tuple(context.service.certificate_files), given)


def _response(request: Request, found: Asset) -> Response:
    """The file, gzipped if accepted; 304 if the client has it; for HEAD only the headers."""
    gzipped = found.gzipped if _takes_gzip(request.headers.getlist("accept-encoding")) else None
    etag = found.digest + (_GZIPPED if gzipped is not None else "")
    headers = HEADERS | {"ETag": f'"{etag}"', "Vary": "Accept-Encoding"}
    if _has(request.headers.getlist("if-none-match"), found.digest):
        return Response(status_code=304, headers=headers)
    body = found.content if gzipped is None else gzipped
    headers["Content-Length"] = str(len(body))
    if gzipped is not None:
        headers["Content-Encoding"] = "gzip"
    return Response(
        b"" if request.method == "HEAD" else body, headers=headers, media_type=found.media_type
    )


def _takes_gzip(accepted: list[str]) -> bool:
    """Whether a client reads gzip, by its `Accept-Encoding` (RFC 9110, 12.5.3)."""
    weights = {}
    for offer in ",".join(accepted).split(","):
        name, *parameters = (part.strip().lower() for part in offer.split(";"))
        weights[name] = not any(re.fullmatch(r"q=0(\.0*)?", one) for one in parameters)
    return weights.get("gzip", weights.get("*", False))


def _has(shown: list[str], digest: str) -> bool:
    """Whether a client has the file in either form, by its `If-None-Match`."""
    tags = ",".join(shown)
    return tags.strip() == "*" or digest in (
        tag.removesuffix(_GZIPPED) for tag in _ETAG.findall(tags)
    )


def _plain(model: str) -> str:
    """The model's name; for a folder only its last part, so that no path is revealed."""
    is_folder = model.startswith(("/", ".", "~")) or model.count("/") > 1 or Path(model).is_dir()
    return Path(model).resolve().name if is_folder else model


def _is_embedded(model: str) -> bool:
    return model == EMBEDDED or Path(model).resolve() == EMBEDDED_MODEL
