"""What commands share that call a running service."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlcm_serve.errors import RequestRefused
from rlcm_serve.settings.sources import CLIENT_VARIABLES

if TYPE_CHECKING:
    import httpx

_SERVICE, _KEY = CLIENT_VARIABLES
SERVICE = "http://127.0.0.1:8000"
JSON_LINES = {"content-type": "application/x-ndjson"}
SECONDS = 60.0
"""For a response to begin, and between two parts of it."""
TRIES = 5
"""Of a request that may be sent again, while the service cannot take it."""
LONGEST_PAUSE = 60.0
"""Seconds between two tries of a request, whatever the service says."""

ServiceOption = Annotated[
    str, typer.Option("--service", envvar=_SERVICE, help="Address of the running service.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", envvar=_KEY, help="API key, if the service asks for one."),
]


def client_of(service: str, key: str | None) -> httpx.Client:
    """A client of the service at this address.

    Raises:
        RequestRefused: it is no address that HTTP can reach, or no key that it can carry.
    """
    import httpx

    if not _is_address(service):
        raise RequestRefused(
            "service",
            f"the address of the service is {service!r}: give one with http:// or https://, such "
            f"as --service {SERVICE}",
        )
    if key is not None and not (key.isascii() and key.isprintable()):
        raise RequestRefused(
            "key", "the API key has characters that no key has: give one that begins with rlcm_"
        )
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=service, headers=headers, timeout=SECONDS)


def _is_address(service: str) -> bool:
    import httpx

    try:
        url = httpx.URL(service)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)


class ServiceRefused(RequestRefused):
    """The service answers with an error, of this HTTP status."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__("service", f"the service answers {status}: {said}")
        self.status = status


def call(
    client: httpx.Client, method: str, path: str, field: str, *, tries: int = 1, **options: Any
) -> Any:
    """The JSON that the service answers with.

    Args:
        client: of the service.
        method: of the request.
        path: of the request.
        field: that the answer always has.
        tries: how often the request is sent while the service says when to try again. More than
            one is for requests that may be repeated.
        options: further arguments of `httpx.Client.request`.

    Raises:
        ServiceRefused: the service refuses the request; the message has what it says.
        RequestRefused: the service cannot be reached, or something else answers.
    """
    response = _sent(client, method, path, **options)
    while (pause := _pause(response)) is not None and (tries := tries - 1) > 0:
        sleep(pause)
        response = _sent(client, method, path, **options)
    if response.is_success:
        return _body(client, response, field)
    raise ServiceRefused(response.status_code, _said(response))


def _body(client: httpx.Client, response: httpx.Response, field: str) -> dict[str, Any]:
    """What a successful response holds.

    Raises:
        RequestRefused: it is no JSON object with this field, so another server or a proxy has
            answered.
    """
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or field not in body:
        raise RequestRefused(
            "service",
            f"what answers at {client.base_url} is no rlcm-serve: give the address of one with "
            "--service",
        )
    return body


def _sent(client: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    import httpx

    try:
        return client.request(method, path, **options)
    except httpx.HTTPError as error:
        raise RequestRefused(
            "service",
            f"the service at {client.base_url} cannot be reached ({error}): start it with "
            "`rlcm serve`, or give its address with --service",
        ) from error


def _pause(response: httpx.Response) -> float | None:
    """Seconds until a refused request may be sent again; None if the service does not say."""
    said = response.headers.get("Retry-After", "")
    return min(float(said), LONGEST_PAUSE) if said.isdecimal() and response.is_error else None


def _said(response: httpx.Response) -> str:
    """What an error response says; its text where it is none of ours."""
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return response.text[:500]
