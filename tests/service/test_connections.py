"""Single connections: every request gets a status, and limits hold however the bytes arrive."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rlcm_serve.api.server import http_protocol, http_server
from rlcm_serve.settings import Settings
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine
from tests.service.listening import listening
from tests.service.test_hostile_clients import BODY, Wire, problem_in

QUESTION = json.dumps(json.loads(BODY) | {"on_infeasible": "full_budget"}).encode()
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /solve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class BlockingEngine(ScriptedEngine):
    """Holds the whole event loop for half a second."""

    async def think(self, *given: Any, **named: Any) -> Any:
        time.sleep(0.5)  # noqa: ASYNC251
        async for event in super().think(*given, **named):
            yield event


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tmp_path_factory.mktemp("state")) as (url, _):
        yield url


def response_to(url: str, data: bytes, piece: int | None = None) -> bytes:
    """What comes back until the service closes, when the data is sent in pieces of this size."""
    with Wire(url) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for start in range(0, len(data), piece or len(data)):
                wire.send(data[start : start + (piece or len(data))])
        except OSError:
            pass  # the service has refused the rest
        return wire.rest()


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        (b"", "0 Host headers"),
        (b"Host: localhost\r\nHost: localhost\r\n", "2 Host headers"),
        (b"Host: localhost\r\nhost: evil.example\r\n", "2 Host headers"),
        (b"Host: me@localhost\r\n", "not a host and port"),
        (b"Host: localhost, evil.example\r\n", "not a host and port"),
        (b"Host: \xff\r\n", "not a host and port"),
    ],
)
def test_a_request_names_one_host(url: str, hosts: bytes, says: str) -> None:
    response = response_to(url, b"GET /health HTTP/1.1\r\n" + hosts + b"\r\n")
    assert says in problem_in(response, 400)["detail"]


def test_http_1_0_needs_no_host(url: str) -> None:
    assert response_to(url, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


PIECES = pytest.mark.parametrize("piece", [None, 700, 1])


@PIECES
def test_headers_over_the_limit_are_refused(
    url: str, monkeypatch: pytest.MonkeyPatch, piece: int | None
) -> None:
    monkeypatch.setattr(http_protocol, "MOST_OF_HEAD", 4096)
    long = b"X-A: " + b"a" * 4096 + b"\r\n"
    many = b"".join(b"X-%d: a\r\n" % number for number in range(500))
    for headers in (long, many):
        response = response_to(url, GET + headers + b"\r\n", piece)
        assert "headers are over" in problem_in(response, 431)["detail"]


@PIECES
@pytest.mark.parametrize("kind", ["one extension", "extensions", "trailers", "a trailer"])
def test_chunk_extensions_and_trailers_have_a_limit(
    url: str, monkeypatch: pytest.MonkeyPatch, kind: str, piece: int | None
) -> None:
    monkeypatch.setattr(http_protocol, "MOST_OF_FRAMING", 1024)
    monkeypatch.setattr(http_protocol, "SLICE", 512)
    body = {
        "one extension": b"1;" + b"x" * 4096 + b"\r\n",
        "extensions": b"".join(b"1;" + b"x" * 100 + b"\r\na\r\n" for _ in range(40)),
        "trailers": b"0\r\n" + b"X-A: b\r\n" * 500,
        "a trailer": b"0\r\nX-A: " + b"x" * 4096,
    }[kind]
    response = response_to(url, CHUNKED + body, piece)
    assert "chunk extensions and trailers" in problem_in(response, 400)["detail"]


@PIECES
def test_ordinary_chunks_are_taken(url: str, piece: int | None) -> None:
    padded = QUESTION + b" " * 2000
    chunks = b"".join(b"1;a=b\r\n%c\r\n" % byte for byte in padded)
    end = b"0\r\nX-Digest: abc\r\n\r\n" + GET + b"Connection: close\r\n\r\n"
    response = response_to(url, CHUNKED + chunks + end, piece)
    assert response.count(b"HTTP/1.1 200") == 2, response


def test_trailers_are_no_headers(tmp_path: Path) -> None:
    with listening(tmp_path, settings=Settings(state=tmp_path, auth="on")) as (url, running):
        key, _ = running.context.keys.create("a client", ["solve"])
        trailer = b"0\r\nX-API-Key: %b\r\n\r\n" % key.encode()
        head = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
        chunk = b"%x\r\n%b\r\n" % (len(QUESTION), QUESTION)
        problem_in(response_to(url, head + chunk + trailer), 401)


def test_a_client_that_is_still_sending_gets_the_refusal(url: str) -> None:
    """With unread data, closing at once would reset the connection."""
    length = 4 * 2**20
    with Wire(url) as wire:
        wire.send(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % length)
        time.sleep(0.2)
        for _ in range(64):
            wire.send(b" " * (length // 64))
        problem_in(wire.rest(), 413)


@pytest.mark.parametrize("fault", [b"zz\r\n", b"2\r\n{}x"])
def test_a_broken_body_gets_a_status(url: str, fault: bytes) -> None:
    with Wire(url) as wire:
        wire.send(CHUNKED)
        time.sleep(0.1)
        wire.send(fault)
        problem_in(wire.rest(), 400)


def test_a_question_is_answered_whatever_follows_it(url: str) -> None:
    asked = POST + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    response = response_to(url, asked + b"\x00 no HTTP at all \r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200"), response
    assert b'"answer"' in response


def test_thousands_of_requests_in_one_packet_are_all_answered(url: str) -> None:
    last = GET + b"Connection: close\r\n\r\n"
    with Wire(url) as wire:
        wire.send((GET + b"\r\n") * 2_000 + last)
        assert wire.rest().count(b"HTTP/1.1 200") == 2_001


def test_little_is_held_of_requests_that_wait(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question waits for a disconnect too, which by itself has more read."""
    held = []
    parse = http_protocol.LimitedProtocol._parse

    def watched(protocol: http_protocol.LimitedProtocol, data: bytes) -> None:
        parse(protocol, data)
        held.append(len(protocol._held))

    monkeypatch.setattr(http_protocol.LimitedProtocol, "_parse", watched)
    head = POST + b"Content-Length: %d\r\n" % len(QUESTION)
    asked, padded = head + b"\r\n" + QUESTION, head + b"X-A: " + b"a" * 30_000 + b"\r\n\r\n"
    last = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    with Wire(url) as wire:
        sending = threading.Thread(
            target=wire.send, args=(asked + (padded + QUESTION) * 60 + last,), daemon=True
        )
        sending.start()
        assert wire.rest().count(b"HTTP/1.1 200") == 62
        sending.join()
    assert 0 < max(held) < 2**19


def test_a_client_that_leaves_ends_its_question_though_another_request_waits(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine(Script(stays=True))
    asked = POST + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    with listening(tmp_path, engine=engine) as (url, _):
        with Wire(url) as wire:
            wire.send(asked + GET + b"\r\n")
            time.sleep(1)
            assert engine.thinking == 1
        deadline = time.monotonic() + 10
        while engine.thinking and time.monotonic() < deadline:
            time.sleep(0.05)
        assert engine.thinking == 0


def test_a_request_that_waits_for_an_earlier_one_keeps_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first half is parsed, and the rest is held until the earlier one has its response."""
    monkeypatch.setattr(http_protocol, "LONGEST_HEAD", 0.1)
    monkeypatch.setattr(http_protocol, "SLICE", 512)
    asked = POST + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    long = GET + b"X-A: " + b"a" * 2_000 + b"\r\nConnection: close\r\n\r\n"
    with listening(tmp_path, engine=BlockingEngine()) as (url, _):
        response = response_to(url, asked + GET + b"\r\n" + long)
    assert response.count(b"HTTP/1.1 200") == 3, response


def test_the_rest_of_a_refused_body_has_a_time_limit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "LONGEST_REST", 0.2)
    with Wire(url) as wire:
        wire.send(POST + b"Content-Length: %d\r\n\r\n" % 2**30)
        problem_in(wire.rest(), 413)


def test_more_connections_than_files_are_refused_with_a_status(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "most_connections", lambda: 0)
    asked = GET.replace(b"/health", b"/readyz") + b"\r\n"
    assert "connections are open" in problem_in(response_to(url, asked), 503)["detail"]
    assert httpx.get(f"{url}/health").status_code == 200


def test_connections_outlive_those_of_load_balancers() -> None:
    async def nothing(*_: Any) -> None: ...

    server = http_server.HttpServer(lambda fail: nothing, nothing)
    assert server.config.timeout_keep_alive > 60


def test_a_request_that_comes_as_the_connection_is_to_be_closed_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy event loop finds the end of the idle time and the request in the same round."""
    monkeypatch.setattr(http_server, "KEEP_ALIVE", 0.3)
    with listening(tmp_path, engine=BlockingEngine()) as (url, _), Wire(url) as idle:
        idle.send(GET + b"\r\n")
        assert idle.response().startswith(b"HTTP/1.1 200")
        asked = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(QUESTION)
        asking = threading.Thread(target=response_to, args=(url, asked + QUESTION))
        asking.start()
        time.sleep(0.2)
        idle.send(GET + b"\r\n")
        assert idle.response().startswith(b"HTTP/1.1 200")
        asking.join()
        assert idle.rest() == b"", "and is closed when it is idle again"


@pytest.mark.parametrize("later", [b"{}", b"{}\r\n\r\n"])
def test_a_connection_is_idle_after_a_late_body_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: bytes
) -> None:
    monkeypatch.setattr(http_server, "KEEP_ALIVE", 0.3)
    with listening(tmp_path) as (url, _), Wire(url) as wire:
        wire.send(b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        problem_in(wire.response(), 404)
        wire.send(later)
        assert wire.rest() == b""
