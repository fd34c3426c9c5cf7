"""The kinds of bodies that routes take."""

from __future__ import annotations

from fastapi import HTTPException, Request

JSON = "application/json"
NDJSON = "application/x-ndjson"


def media_type(request: Request) -> str:
    """The content type of a request's body, in lower case and without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def unsupported(request: Request, *kinds: str) -> HTTPException:
    """415 for a body that is of none of these content types."""
    given = request.headers.get("content-type") or "missing"
    return HTTPException(415, f"the content type is {given!r}: send {' or '.join(kinds)}")
