"""What kinds of bodies a route takes."""

from __future__ import annotations

from fastapi import HTTPException, Request


async def json_only(request: Request) -> None:
    """Refuses a body that does not say that it is JSON.

    Raises:
        HTTPException: 415.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(
            415, f"the content type is {given or 'missing'!r}: send application/json"
        )
