"""Connects an HTTP connection to a thread that reads the body and writes the response.

The body is read as fast as the thread takes it. The response waits on disk until the client reads
it. Many clients send their whole body before they read: without the disk, client and server would
wait for each other forever.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import RunVar
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastapi import HTTPException, Response
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.api.error_responses import failed_in_stream
from rlcm_serve.errors import BatchOutOfTime
from rlcm_serve.store.connection.faults import storing

MOST_AT_ONCE = 4
"""Number of threads; the bodies of further requests wait, all but their first parts unread."""
MOST_WAITING = 32
"""Requests that may wait for a thread; further ones are refused."""
LONGEST_SILENCE = 60.0
"""Seconds for which a client may send nothing while its body is incomplete."""
_PARTS = 16
"""Parts of a body, as received, that may wait for the thread."""
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
        feed, body = anyio.create_memory_object_stream[bytes](_PARTS)
        try:
            async with anyio.create_task_group() as tasks:
                self._scope = tasks.cancel_scope
                tasks.start_soon(self._receive, receive, feed)
                tasks.start_soon(self._run, body, outbox)
                tasks.start_soon(self._watch)
                await outbox.ready(whole=self._last_words is None)
                if self._failure is None or (outbox.size and self._last_words):
                    await self._send(send, outbox)
                tasks.cancel_scope.cancel()
        finally:
            outbox.close()
        if self._failure is not None and not self._has_begun:
            raise self._failure

    async def _receive(self, receive: Receive, feed: MemoryObjectSendStream[bytes]) -> None:
        """Passes the body on, then waits for the client to disconnect."""
        try:
            message: Message = {"type": "http.request"}
            async with feed:
                with self._reading:
                    while not self._has_whole_body:
                        with anyio.fail_after(LONGEST_SILENCE):
                            message = await receive()
                        if message["type"] == "http.disconnect":
                            break
                        await feed.send(message.get("body", b""))
                        self._has_whole_body = not message.get("more_body", False)
            while message["type"] != "http.disconnect":
                message = await receive()
            self._fail(ClientDisconnect())
            self._scope.cancel()
        except TimeoutError:
            self._fail(HTTPException(408, f"nothing came for {LONGEST_SILENCE:g} s: send it again"))
        except anyio.BrokenResourceError:
            pass  # the thread has failed and no longer reads the body
        except Exception as error:  # noqa: BLE001 - any error that stops the body
            self._fail(error)

    async def _run(self, body: MemoryObjectReceiveStream[bytes], outbox: Outbox) -> None:
        def work() -> None:
            with storing():  # the work may keep more than the output on disk
                self._work(self._parts(body), outbox.write)

        try:
            async with self._terms.admission.place(self._terms.tenant) as place:
                self._is_running, began = True, time.monotonic()
                try:
                    await anyio.to_thread.run_sync(work, limiter=_limiter())
                finally:
                    place.cost = 1000 * (time.monotonic() - began)
        except Exception as error:  # noqa: BLE001 - reported to the client and logged
            self._fail(error)
        finally:
            self._is_complete = True
            body.close()
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

    def _parts(self, body: MemoryObjectReceiveStream[bytes]) -> Iterator[bytes]:
        """The parts of the body, for the thread."""
        while part := anyio.from_thread.run(_take, body):
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
