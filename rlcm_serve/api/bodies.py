"""JSON bodies: their limits, checked before they are parsed, and the work of reading them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache, partial
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from rlcm_serve.api.context import Context
from rlcm_serve.api.error_responses import MOST_ERRORS
from rlcm_serve.api.media import JSON, media_type, unsupported
from rlcm_serve.api.wire.suggestions import told
from rlcm_serve.errors import RequestRefused

MOST_VALUES = 20_000
"""Names and values in a JSON body: strings, numbers, constants, lists and objects."""
DEEPEST = 32
"""Levels of lists and objects in a JSON body."""
_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[\[{]|[\]}]|[^\s\[\]{},:"]++', re.DOTALL)
"""A string, the begin of a list or object, its end, or a number or constant."""
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile(r"[\ud800-\udfff]")


class JsonRoute(APIRoute):
    """A route that reads its JSON body in a thread if it is large. Others are left as they are.

    FastAPI parses and checks bodies on the event loop, however large they are.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler that FastAPI calls with each request."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        read = partial(parse_body, self.body_field.field_info.annotation or Any)

        async def read_and_handle(request: Request) -> Response:
            if media_type(request) != JSON:
                raise unsupported(request, JSON)
            checked = _CheckedRequest(request.scope, request.receive)
            if body := await checked.body():  # FastAPI reports a missing body
                request.state.arrived = asyncio.get_running_loop().time()
                context: Context = request.app.state.context
                caller_id = request.state.caller.key_id
                checked.content = await context.workers.run(caller_id, len(body), read, body)
            return await handle(checked)

        return read_and_handle


class _CheckedRequest(Request):
    """A request whose body was parsed and checked; FastAPI takes the result as it is."""

    content: Any = None

    async def json(self) -> Any:
        """The value that was made of the body."""
        return self.content


def parse_body(kind: Any, body: bytes) -> Any:
    """The value of a JSON body.

    Raises:
        RequestRefused: the body is not JSON in UTF-8, or has too many values or levels.
        RequestValidationError: the JSON is malformed, or is no value of this kind, or a text has
            half a surrogate pair, which no tokenizer takes.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestRefused("body", f"the body is not JSON in UTF-8: {error.reason}") from error
    require_plain(text)
    try:
        value = json.loads(text)
        if _ESCAPED.search(text):
            _require_whole_characters(value)
        return _adapter(kind).validate_python(value, from_attributes=True)
    except json.JSONDecodeError as error:
        found: dict[str, Any] = {"type": "json_invalid", "loc": ("body", error.pos)}
        raise RequestValidationError([found | {"msg": f"JSON decode error: {error}"}]) from error
    except ValidationError as error:
        errors = [
            _in_body(told(kind, dict(each)) if at < MOST_ERRORS else each)
            for at, each in enumerate(error.errors(include_url=False))
        ]
        raise RequestValidationError(errors) from error
    except ValueError as error:  # a number with thousands of digits
        raise RequestRefused("body", f"the body cannot be read: {error}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _in_body(found: Mapping[str, Any]) -> dict[str, Any]:
    """An error at its place in the request, which begins with the body."""
    return {**found, "loc": ("body", *found["loc"])}


def _require_whole_characters(value: Any, at: tuple[str | int, ...] = ("body",)) -> None:
    children: Iterable[tuple[str | int, Any]] = ()
    texts: Iterable[str] = ()
    if isinstance(value, str):
        texts = (value,)
    elif isinstance(value, dict):
        texts, children = value, value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    if any(_HALF.search(text) for text in texts):
        told = "a text has half a surrogate pair (\\ud800 to \\udfff): send whole characters"
        found = {"type": "string_unicode", "msg": told}
        raise RequestValidationError([found | {"loc": at, "input": value}])
    for name, child in children:
        _require_whole_characters(child, (*at, name))


def require_plain(text: str) -> None:
    """Returns if JSON has at most `MOST_VALUES` names and values in at most `DEEPEST` levels.

    Counting stops at the limit. So it takes no time to speak of, and parsing is bounded.

    Raises:
        RequestRefused: there are more.
    """
    values = level = 0
    for part in _PART.finditer(text):
        first = text[part.start()]
        if first in "]}":
            level -= 1
            continue
        values += 1
        if values > MOST_VALUES:
            raise RequestRefused(
                "body", f"the body has over {MOST_VALUES} names and values: send fewer"
            )
        if first in "[{":
            level += 1
            if level > DEEPEST:
                raise RequestRefused(
                    "body", f"the body is nested in over {DEEPEST} levels: send it with fewer"
                )
