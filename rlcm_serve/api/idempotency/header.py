"""The header `Idempotency-Key`, as the IETF draft of this name and Stripe's API have it."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.datastructures import Headers

from rlcm_serve.errors import RequestRefused

HEADER = "Idempotency-Key"
REPLAYED = b"idempotent-replayed"
"""In the response to a repeat. Stripe's API has the same header."""
LONGEST = 255
_KEY = re.compile(rf"[\x20-\x7e]{{1,{LONGEST}}}")
_DESCRIPTION = (
    "A value that you choose for this request and send again with every repeat of it, such as a "
    "random UUID. A repeat gets the first response and is not computed again. Quotation marks "
    "around the value do not count."
)


def key_in(headers: Headers) -> str | None:
    """The key in a request's headers; None if there is none.

    Raises:
        RequestRefused: there are several, or its value is empty, too long or not ASCII.
    """
    shown = headers.getlist(HEADER)
    if not shown:
        return None
    if len(shown) > 1:
        raise RequestRefused(HEADER, f"there are {len(shown)} {HEADER} headers: send one")
    # The draft wants a string of RFC 9651, in quotation marks. Most clients send a bare value.
    value = shown[0].strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    if not _KEY.fullmatch(value):
        raise RequestRefused(
            HEADER,
            f"the {HEADER} has {len(value)} characters: give 1 to {LONGEST} printable ASCII "
            "characters, such as a random UUID",
        )
    return value


def digest_of(*parts: bytes) -> str:
    """SHA-256 of the parts, each preceded by its length, in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def place_of(caller_id: str | None, route: str, key: str) -> str:
    """What a key stands for: it belongs to one API key and one route. Reveals none of them."""
    return digest_of((caller_id or "").encode(), route.encode(), key.encode())


async def _idempotency_key(
    request: Request,
    shown: Annotated[
        str | None,
        Header(
            alias=HEADER,
            description=_DESCRIPTION,
            examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
        ),
    ] = None,
) -> str | None:
    return key_in(request.headers)


IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
"""The key of a request, for a route; it also describes the header."""
TAKES_KEY = Depends(_idempotency_key)
"""Describes the header of a route for which the middleware does the work."""
