"""One HTTP connection, with limits on the size of its framing and on idle time."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rlcm_serve.api.error_responses import MEDIA_TYPE, ErrorDocument
from rlcm_serve.api.server.crowding import Crowding
from rlcm_serve.api.server.hosts import Authority
from rlcm_serve.api.server.lingering import LingeringTransport
from rlcm_serve.api.server.open_files import most_connections

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

KEEP_ALIVE = 75
"""Seconds for which an idle connection stays open. Common load balancers close theirs after 60 s.
The side that waits longer never closes a connection on which a request is under way."""
MOST_OF_HEAD = 64 * 2**10
"""Limit on a request's first line and headers together, in bytes."""
MOST_OF_FRAMING = 16 * 2**10
"""Limit on the chunk extensions and trailers of a body, in bytes."""
CHUNK_ALLOWANCE = 16
"""Bytes per chunk that are no extension: its size and its line ends."""
DATA_ALLOWANCE = 2
"""Bytes per byte of data that are no extension either. Go's net/http counts in the same way."""
SLICE = 4 * 2**10
"""Bytes that the parser gets at a time, so that limits hold however the bytes arrive."""
HEALTH = b"/health"
"""Answered however many connections there are."""
LONGEST_HEAD = 30.0
"""Seconds for a request's headers to arrive, from the connection or from their first byte."""
LONGEST_STALL = 60.0
"""Seconds for which a client may read nothing of a response that is ready."""
LONGEST_REST = 10.0
"""Seconds for which the rest of a body may arrive after the response."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits.

    By itself it accepts headers, chunk extensions and trailers of any size. It also waits without
    end for headers and for clients that do not read, while unsent data collects in memory.

    Refusals are problem documents, as everywhere in the service.
    """

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None
    _crowding = Crowding()
    _is_dropped = False
    _of_head = 0
    heard_at = 0.0
    """When the client last sent something, in seconds of the monotonic clock."""
    _framing = 0
    _is_sending = False
    _is_in_body = False
    _is_deaf = False
    _held = b""
    _running: RequestResponseCycle | None = None
    _fault = (400, "this is not a valid HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected; its headers must now arrive in time."""
        self._lingering = LingeringTransport(
            transport, self.loop, lambda: self._is_sending or bool(self._held)
        )
        super().connection_made(self._lingering)  # type: ignore[arg-type]
        self.flow = _FlowOfHeld(self._lingering, lambda: len(self._held))  # type: ignore[arg-type]
        self._await_head()
        self.heard_at = time.monotonic()
        if len(self.connections) > (most := most_connections()):
            self._crowding.make_room(self._all(), self, most)

    @property
    def is_open(self) -> bool:
        """Whether it was not dropped."""
        return not self._is_dropped

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has something to send or to read."""
        cycle = self.cycle
        is_computing = bool(self.pipeline) or (
            cycle is not None and not (cycle.response_complete or cycle.more_body)
        )
        return self._stalled is not None or not is_computing

    def drop(self) -> None:
        """Closes the connection at once."""
        self._is_dropped = True
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected."""
        self._have_head()
        self._go_on()
        self._have_rest()
        if self._running is not None:  # uvicorn tells only the request that was parsed last
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived; what is not data of a body counts towards a limit.

        While a request waits for an earlier one (HTTP pipelining), what follows it is not parsed.
        So thousands of requests in one packet neither hold the event loop nor fill memory.
        """
        self.heard_at = time.monotonic()
        self._parse(self._held + data)

    def on_message_begin(self) -> None:
        """A request begins, the first on this connection or a further one."""
        super().on_message_begin()
        self._is_sending = True
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. Trailers are dropped: a proxy checks headers, and would not see them."""
        if not self._is_in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are complete; the reader of the body limits its size and time."""
        self._have_head()
        if (fault := self._fault_of_head()) is not None:
            self._fault = fault
            raise ValueError(fault)  # the parser stops, and `send_400_response` is called
        self._is_in_body = True
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """The size of a chunk is complete, with its extensions."""
        self._framing -= CHUNK_ALLOWANCE

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._framing -= (1 + DATA_ALLOWANCE) * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._is_sending = self._is_in_body = False
        self._have_rest()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The response is complete, perhaps before the request."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._is_in_body and self.cycle.response_complete:
            self._rest = self.loop.call_later(LONGEST_REST, self.transport.close)
        if self._held:
            self._parse(self._held)

    def timeout_keep_alive_handler(self) -> None:
        """The connection was idle for `KEEP_ALIVE` seconds; a request that just came is served."""
        self.timeout_keep_alive_task = None
        if not self.transport.is_closing() and not _has_input(self.transport):
            self.transport.close()

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
        self._refuse(*self._fault)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def _is_idle(self) -> bool:
        is_answered = self.cycle is not None and self.cycle.response_complete
        return is_answered and not self._is_sending and not self.pipeline

    def _parse(self, data: bytes) -> None:
        self._held = b""
        for start in range(0, len(data), SLICE):
            if self._lingering.is_closing():
                self._lingering.discard(len(data))
                return
            if self._is_deaf:
                return
            if self.pipeline:
                self._held = data[start:]
                self.flow.pause_reading()
                return
            self._take(data[start : start + SLICE])
        if self._is_idle and self.timeout_keep_alive_task is None:
            # uvicorn stops this clock at any byte, and starts it only with a response.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _take(self, part: bytes) -> None:
        was_in_body = self._is_in_body
        super().data_received(part)
        if self._is_deaf or self.transport.is_closing():
            return
        if self._deadline is not None:
            self._of_head += len(part)
            if self._of_head > MOST_OF_HEAD:
                self._refuse(*_LONG_HEAD)
        elif not (was_in_body and self._is_in_body):
            self._framing = 0
        else:
            self._framing += len(part)
            if self._framing > MOST_OF_FRAMING:
                detail = f"chunk extensions and trailers are over {MOST_OF_FRAMING} bytes"
                self._refuse(400, f"{detail}: leave them out")

    def _fault_of_head(self) -> tuple[int, str] | None:
        """The status and the reason with which complete headers are refused."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > (
            MOST_OF_HEAD
        ):
            return _LONG_HEAD
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or not (hosts or self.parser.get_http_version() == "1.0"):
            return 400, f"the request has {len(hosts)} Host headers: send one"
        if hosts and hosts[0] and Authority.parse(hosts[0].decode("latin-1")) is None:
            return 400, "the Host header is not a host and port: send the service's name"
        if self._is_one_too_many() and self.url.partition(b"?")[0] != HEALTH:
            return 503, f"over {most_connections()} connections are open: retry later"
        return None

    def _all(self) -> set[LimitedProtocol]:
        return cast("set[LimitedProtocol]", self.connections)  # the server makes no others

    def _is_one_too_many(self) -> bool:
        """Whether too many are open even without those that `Crowding` closed."""
        most = most_connections()
        if len(self.connections) <= most:
            return False
        return sum(one.is_open for one in self._all()) > most

    def _await_head(self) -> None:
        self._have_head()
        self._of_head = 0
        self._deadline = self.loop.call_later(LONGEST_HEAD, self._give_up)

    def _have_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _have_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _give_up(self) -> None:
        if self.pipeline:  # the rest may be among the bytes that are held
            self._deadline = self.loop.call_later(LONGEST_HEAD, self._give_up)
        elif not self.transport.is_closing():
            self._refuse(408, f"no whole request came within {LONGEST_HEAD:g} s: send it again")

    def _refuse(self, status: int, detail: str) -> None:
        """Answers a faulty request, after which the connection is of no more use."""
        self._have_head()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not self._is_in_body or self.pipeline:
                # The fault is in a further request; those before it still get their responses.
                self._is_deaf = True
                cycle.keep_alive = False
                return
            if cycle.response_started:
                self.transport.abort()  # the client must not take what it has for all of it
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(_response(status, detail))
        self.transport.close()


class _FlowOfHeld(FlowControl):
    """uvicorn's flow control, under which no more is read while much is held unparsed.

    By itself every request that waits for its body or for a disconnect would have more read.
    """

    def __init__(self, transport: asyncio.Transport, held: Callable[[], int]) -> None:
        super().__init__(transport)
        self._held = held

    def resume_reading(self) -> None:
        if self._held() < HIGH_WATER_LIMIT:
            super().resume_reading()


def _has_input(transport: asyncio.Transport) -> bool:
    """Whether bytes wait in the socket that the event loop has not read yet."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


_LONG_HEAD = (431, f"the headers are over {MOST_OF_HEAD} bytes: send fewer")


def _response(status: int, detail: str) -> bytes:
    body = ErrorDocument.of_status(status, detail).to_json().encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
