"""Connects an HTTP connection to a thread that reads the body and writes the response.

The body is read as fast as the thread takes it, and before the thread starts as far as `AHEAD`. The
response waits on disk until the client reads it. Many clients send their whole body before they
read: without the disk, client and server would wait for each other forever.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import RunVar
from anyio.streams.memory import MemoryObjectReceiveStream
from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.api.error_responses import failed_in_stream
from rlcm_serve.errors import BatchOutOfTime
from rlcm_serve.store.connection.faults import storing

MOST_AT_ONCE = 4
"""Number of threads; further requests wait."""
MOST_WAITING = 32
"""Requests that may wait for a thread; further ones are refused."""
AHEAD = 64 * 2**20
"""Bytes of a body that are read while it waits for a thread, so that a client that leaves is
noticed. One that has sent more keeps its place until a thread is free."""
_IN_MEMORY = 2**20
"""Bytes of these that are not put on disk."""
_PARTS = 16
"""Parts of a body, as received, that may wait for a running thread."""
_CHUNK = 2**16
"""Bytes of a response sent at a time."""

_places: RunVar[anyio.CapacityLimiter] = RunVar("places of threaded responses")


class Outbox:
    """A file on disk that a thread writes and a coroutine sends."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = tempfile.TemporaryFile(prefix="rlcm-", buffering=0)  # noqa: SIM115
        self._news = asyncio.Event()
        self._sent = self.size = 0
        self._is_done = False

    def write(self, data: bytes) -> None:
        """Appends data. The thread calls this."""
        while data:
            written = self._file.write(data)
            self.size += written
            data = data[written:]
        self._loop.call_soon_threadsafe(self._news.set)

    def end(self) -> None:
        """Marks the output as complete."""
        self._is_done = True
        self._news.set()

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

    async def ready(self, *, whole: bool) -> None:
        """Returns once there is something to send, or with `whole` once the output is complete."""
        while not (self._is_done or (self.size and not whole)):
            await self._news.wait()
            self._news.clear()

    async def read(self) -> bytes:
        """The next part; empty at the end."""
        while True:
            is_done = self._is_done
            part = os.pread(self._file.fileno(), _CHUNK, self._sent)
            self._sent += len(part)
            if part or is_done:
                return part
            await self._news.wait()
            self._news.clear()


class Inbox:
    """A body that a coroutine receives and a thread reads.

    What comes before the thread starts is kept, up to AHEAD. What comes later waits, few parts at a
    time, until the thread takes it.
    """

    def __init__(self) -> None:
        self._early = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="rlcm-")  # noqa: SIM115
        self._room = AHEAD
        self._feed, self._parts = anyio.create_memory_object_stream[bytes](_PARTS)

    async def put(self, part: bytes) -> None:
        """Adds a part of the body; waits while there is no room for it.

        Raises:
            BrokenResourceError: nobody reads it any more.
            StorageFull: the disk has no space for it.
        """
        if len(part) <= self._room:
            self._room -= len(part)
            with storing():
                self._early.write(part)
        else:
            self._room = -1  # so that all that follows comes after this part
            await self._feed.send(part)

    def end(self) -> None:
        """Marks the body as received, or as broken off."""
        self._feed.close()

    def start(self) -> None:
        """Says that a thread reads from now on."""
        self._room = -1

    def read(self) -> Iterator[bytes]:
        """The parts, for the thread; none of them is empty."""
        self._early.seek(0)
        while part := self._early.read(_IN_MEMORY):
            yield part
        while part := anyio.from_thread.run(_take, self._parts):
            yield part

    def close(self) -> None:
        """Removes the file, and lets `put` fail."""
        self._room = -1
        with suppress(OSError):  # a full disk: it would still write what nobody will read
            self._early.close()
        self._parts.close()


@dataclass(frozen=True, slots=True)
class Terms:
    """How a request gets a thread.

    Attributes:
        admission: the places of all such requests, as many as there are threads.
        tenant: who asks.
        seconds: within which the output must be complete, waiting included.
    """

    admission: Admission
    tenant: Tenant
    seconds: float


Work = Callable[[Iterator[bytes], Callable[[bytes], None]], None]
"""Reads a body and writes a response, in a thread. Its reads fail once the client has
disconnected."""


class ThreadedResponse(Response):
    """A response that a thread writes while it reads the request.

    Args:
        work: reads the body and writes the response.
        abandon: makes `work` fail soon, and returns without waiting for it.
        terms: how it gets a thread.
        media_type: of the response.
        last_words: the end of the response if `work` fails after it has begun. With None, the
            response begins only once it is complete.
    """

    def __init__(
        self,
        work: Work,
        abandon: Callable[[], None],
        terms: Terms,
        media_type: str,
        last_words: Callable[[Mapping[str, object]], bytes] | None,
    ) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._work = work
        self._abandon = abandon
        self._terms = terms
        self._last_words = last_words
        self._failure: Exception | None = None
        self._scope, self._reading = anyio.CancelScope(), anyio.CancelScope()
        self._has_whole_body = self._has_begun = self._is_running = self._is_complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request.

        Raises:
            Exception: the error of `work`, if the response had not begun.
            Overloaded: too many requests wait already, or too many of this caller.
            BatchOutOfTime: the output was not complete in time, and the response had not begun.
            ClientDisconnect: the client has disconnected.
        """
        with storing():
            outbox = Outbox()
        inbox = Inbox()
        try:
            async with anyio.create_task_group() as tasks:
                self._scope = tasks.cancel_scope
                tasks.start_soon(self._receive, receive, inbox)
                tasks.start_soon(self._run, inbox, outbox)
                tasks.start_soon(self._watch)
                await outbox.ready(whole=self._last_words is None)
                if self._failure is None or (outbox.size and self._last_words):
                    await self._send(send, outbox)
                tasks.cancel_scope.cancel()
        finally:
            outbox.close()
        if self._failure is not None and not self._has_begun:
            raise self._failure

    async def _receive(self, receive: Receive, inbox: Inbox) -> None:
        """Passes the body on, then waits for the client to disconnect."""
        try:
            is_gone = await self._read_body(receive, inbox)
            while not is_gone:
                is_gone = (await receive())["type"] == "http.disconnect"
            self._fail(ClientDisconnect())
            self._scope.cancel()
        except anyio.BrokenResourceError:
            pass  # the thread has failed and no longer reads the body
        except Exception as error:  # noqa: BLE001 - any error that stops the body
            self._fail(error)

    async def _read_body(self, receive: Receive, inbox: Inbox) -> bool:
        """Passes the body on; returns whether the client has disconnected.

        It has no clock: `api.access` limits how slowly a body may come, on every route.
        """
        try:
            with self._reading:
                while not self._has_whole_body:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return True
                    await inbox.put(message.get("body", b""))
                    self._has_whole_body = not message.get("more_body", False)
        finally:
            inbox.end()
        return False

    async def _run(self, inbox: Inbox, outbox: Outbox) -> None:
        def work() -> None:
            with storing():  # the work may keep more than the output on disk
                self._work(self._parts(inbox), outbox.write)

        try:
            async with self._terms.admission.place(self._terms.tenant) as place:
                self._is_running, began = True, time.monotonic()
                inbox.start()
                try:
                    await anyio.to_thread.run_sync(work, limiter=_limiter())
                finally:
                    place.cost = 1000 * (time.monotonic() - began)
        except Exception as error:  # noqa: BLE001 - reported to the client and logged
            self._fail(error)
        finally:
            self._is_complete = True
            inbox.close()
            outbox.end()

    async def _watch(self) -> None:
        """Asks the thread to stop at the end of its time, as a thread cannot be cancelled."""
        try:
            await anyio.sleep(self._terms.seconds)
            if not self._is_complete:
                self._fail(BatchOutOfTime(self._terms.seconds))
                self._reading.cancel()
            await anyio.sleep_forever()
        finally:
            self._abandon()

    async def _send(self, send: Send, outbox: Outbox) -> None:
        if self._last_words is None:
            self.headers["content-length"] = str(outbox.size)
        self._has_begun = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while part := await outbox.read():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        last = b""
        if self._failure is not None and self._last_words is not None:
            last = self._last_words(failed_in_stream(self._failure).document())
        await send({"type": "http.response.body", "body": last, "more_body": False})

    def _parts(self, inbox: Inbox) -> Iterator[bytes]:
        """The parts of the body, for the thread."""
        for part in inbox.read():
            if self._failure is not None:
                raise RuntimeError("the request was given up")
            yield part
        if not self._has_whole_body:
            raise RuntimeError("the body broke off")

    def _fail(self, error: Exception) -> None:
        # The first error is the cause of later ones.
        self._failure = self._failure or error
        self._abandon()
        if not self._is_running:  # it still waits for a thread
            self._scope.cancel()


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _places.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MOST_AT_ONCE)
        _places.set(limiter)
        return limiter


async def _take(body: MemoryObjectReceiveStream[bytes]) -> bytes:
    """Waits for data, then returns everything received so far; empty at the end."""
    parts: list[bytes] = []
    try:
        while not any(parts):
            parts.append(await body.receive())
        while len(parts) < _PARTS:
            parts.append(body.receive_nowait())
    except (anyio.EndOfStream, anyio.WouldBlock):
        pass
    return b"".join(parts)
