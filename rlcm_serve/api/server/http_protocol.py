"""One HTTP connection, with limits on what a client may send, and on how long it may do nothing."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_OF_HEAD = 64 * 2**10
"""Bytes of a request's line and headers together."""
LONGEST_HEAD = 30.0
"""Seconds within which they must have come, from the connection or their first byte on."""
LONGEST_STALL = 60.0
"""Seconds for which a client may take nothing of a response that waits for it."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's, which by itself takes headers without end, and waits for ever for them and for
    clients that do not read; meanwhile what they do not read would pile up here.

    What it refuses, it refuses as a problem document, like everything behind it.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _of_head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected; it has yet to say what it wants."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._have_head()
        self._go_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have come; those of a head that is not whole yet are counted."""
        super().data_received(data)
        if self._deadline is not None and not self.transport.is_closing():
            self._of_head += len(data)
            if self._of_head > MOST_OF_HEAD:
                self._refuse(431, f"the headers are over {MOST_OF_HEAD} bytes: send fewer")

    def on_message_begin(self) -> None:
        """A request begins, the first on this connection or a further one."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """Its headers are there; what follows is counted and timed where it is read."""
        self._have_head()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        super().pause_writing()
        self._stalled = self.loop.call_later(LONGEST_STALL, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        self._go_on()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, and hangs up."""
        self._refuse(400, "this is no valid HTTP request")

    def _await_head(self) -> None:
        self._have_head()
        self._of_head = 0
        self._deadline = self.loop.call_later(LONGEST_HEAD, self._give_up)

    def _have_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408, f"no whole request came within {LONGEST_HEAD:g} s: send it anew")

    def _refuse(self, status: int, detail: str) -> None:
        self._have_head()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()  # another response is under way: nothing may come between
            return
        self.transport.write(_response(status, detail))
        self.transport.close()


def _response(status: int, detail: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    name = phrase.lower().replace(" ", "-")
    document: dict[str, Any] = {
        "type": f"urn:rlcm:problem:{name}",
        "title": phrase,
        "status": status,
        "detail": detail,
    }
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
