import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.api.server import threaded
from rlcm_serve.api.server.threaded import Terms, ThreadedResponse
from rlcm_serve.errors import StorageFull

PARTS = [b"part %03d," % number for number in range(100)]
LEAVES: Message = {"type": "http.disconnect"}
ENDS: Message = {"type": "http.request", "body": b"", "more_body": False}


class Client:
    """Sends PARTS and a last message, then waits for the response until it is to leave."""

    def __init__(self, last: Message) -> None:
        parts = [{"type": "http.request", "body": part, "more_body": True} for part in PARTS]
        self._messages = iter([*parts, last])
        self.sent = 0
        self.is_idle, self.is_to_leave = asyncio.Event(), asyncio.Event()
        self.read = b""

    async def receive(self) -> Message:
        await asyncio.sleep(0)
        for message in self._messages:
            self.sent += 1
            return message
        self.is_idle.set()
        await self.is_to_leave.wait()
        return LEAVES

    async def send(self, message: Message) -> None:
        self.read += message.get("body", b"")


def echo(body: Iterator[bytes], write: Callable[[bytes], None]) -> None:
    for part in body:
        write(part)


async def respond(client: Client, admission: Admission, seconds: float = 20) -> None:
    terms = Terms(admission, Tenant(), 2 * seconds)
    response = ThreadedResponse(echo, lambda: None, terms, "text/plain", last_words=None)
    async with asyncio.timeout(seconds):
        await response({"type": "http"}, client.receive, client.send)


@asynccontextmanager
async def busy() -> AsyncIterator[Admission]:
    """Places that are all taken."""
    admission = Admission(1, 1)
    async with admission.place():
        yield admission


async def test_a_client_that_leaves_while_it_waits_leaves_the_queue() -> None:
    async with busy() as admission:
        with pytest.raises(ClientDisconnect):
            await respond(Client(LEAVES), admission)
        assert admission.waiting == 0


@pytest.mark.parametrize("ahead", [0, 95, 10_000])
async def test_a_body_that_waits_is_read_ahead_within_bounds_and_whole_later(
    monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(threaded, "AHEAD", ahead)
    monkeypatch.setattr(threaded, "_IN_MEMORY", 25)
    client = Client(ENDS)
    async with busy() as admission:
        responding = asyncio.create_task(respond(client, admission))
        for _ in range(1000):
            await asyncio.sleep(0)
        sent = client.sent
    await responding
    assert client.read == b"".join(PARTS)
    assert sent == min(len(PARTS) + 1, ahead // len(PARTS[0]) + threaded._PARTS + 1)


async def test_no_space_for_a_body_that_waits_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> IO[bytes]:
        return Path("/dev/full").open("r+b")

    monkeypatch.setattr(threaded, "_IN_MEMORY", 25)
    async with busy() as admission:
        responding = asyncio.create_task(respond(Client(ENDS), admission))
        await asyncio.sleep(0)  # the file of the response is there
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
        with pytest.raises(StorageFull):
            await responding
        assert admission.waiting == 0


async def test_a_pause_of_the_body_is_timed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """`api.access` times the bodies of all routes; a second clock would say something else."""
    goes_on = asyncio.Event()

    class Pausing(Client):
        async def receive(self) -> Message:
            if self.sent == 50:
                self.is_idle.set()
                await goes_on.wait()
            return await super().receive()

    client = Pausing(ENDS)
    responding = asyncio.create_task(respond(client, Admission(1, 1), seconds=1000))
    await client.is_idle.wait()
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 100)
    await asyncio.sleep(0.01)
    goes_on.set()
    await responding
    assert client.read == b"".join(PARTS)


async def test_a_request_that_is_given_up_reads_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "_IN_MEMORY", len(PARTS[0]))
    loop, client = asyncio.get_running_loop(), Client(ENDS)
    abandoned, taken = threading.Event(), 0

    def work(body: Iterator[bytes], write: Callable[[bytes], None]) -> None:
        nonlocal taken
        for _ in body:
            taken += 1
            loop.call_soon_threadsafe(client.is_to_leave.set)
            abandoned.wait(20)

    async with busy() as admission:
        terms = Terms(admission, Tenant(), 60)
        response = ThreadedResponse(work, abandoned.set, terms, "text/plain", last_words=None)
        call = response({"type": "http"}, client.receive, client.send)
        responding = asyncio.create_task(call)
        await client.is_idle.wait()
    with pytest.raises(ClientDisconnect):
        await responding
    assert taken == 1
