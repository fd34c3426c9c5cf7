"""One HTTP connection, with limits on the size of headers and on idle time."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rlcm_serve.api.error_responses import MEDIA_TYPE, ErrorDocument

MOST_OF_HEAD = 64 * 2**10
"""Limit on a request's first line and headers together, in bytes."""
LONGEST_HEAD = 30.0
"""Seconds for them to arrive, counted from the connection or from their first byte."""
LONGEST_STALL = 60.0
"""Seconds for which a client may read nothing of a response that is ready."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. By itself it accepts headers of any size, and waits without
    end for headers and for clients that do not read, while unsent data collects in memory.

    Refusals are problem documents, as everywhere in the service.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _of_head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected; its headers must now arrive in time."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected."""
        self._have_head()
        self._go_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived; they count towards the limit until the headers are complete."""
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
        """The headers are complete; the reader of the body limits its size and time."""
        self._have_head()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        super().pause_writing()
        self._stalled = self.loop.call_later(LONGEST_STALL, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._go_on()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not valid HTTP, and closes the connection."""
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
            self.transport.close()  # another response is being sent and must not be mixed up
            return
        self.transport.write(_response(status, detail))
        self.transport.close()


def _response(status: int, detail: str) -> bytes:
    body = ErrorDocument.of_status(status, detail).to_json().encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
