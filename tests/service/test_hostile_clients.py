"""Clients that mean harm, or are broken: on raw sockets, against the app as it is served."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from rlcm_serve.api import access
from rlcm_serve.api.server import http_protocol
from rlcm_serve.settings import Settings
from rlcm_serve.telemetry import logs
from tests.rlcm_serve.api.serving import Running
from tests.rlcm_serve.scripted_engine import Script
from tests.service.listening import listening

SECRET = "the number of my bank account is 12345678"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Running, str]]:
    """Where a service listens that asks for keys, what is inside, and a key that may ask."""
    state = tmp_path_factory.mktemp("locked")
    with listening(state, settings=Settings(state=state, auth="on")) as (url, running):
        key, _ = running.context.keys.create("a client", ["solve"])
        yield url, running, key


@pytest.fixture
def open_(tmp_path: Path) -> Iterator[tuple[str, Running]]:
    """One that asks for none."""
    with listening(tmp_path) as found:
        yield found


class Wire:
    """A connection, to send anything on."""

    def __init__(self, url: str) -> None:
        at = httpx.URL(url)
        self.socket = socket.create_connection((at.host, at.port or 80), timeout=20)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def response(self) -> bytes:
        """The next response, however many packets it comes in; it must have a Content-Length."""
        data = b""
        while not (head := data.partition(b"\r\n\r\n"))[1]:
            data += self._some()
        found = re.search(rb"content-length: *(\d+)", head[0], re.IGNORECASE)
        assert found is not None, data
        length = len(head[0]) + 4 + int(found[1])
        while len(data) < length:
            data += self._some()
        assert len(data) == length, data
        return data

    def _some(self) -> bytes:
        part = self.socket.recv(2**16)
        assert part, "the service has closed the connection"
        return part

    def rest(self) -> bytes:
        """All that comes until the service hangs up."""
        parts = []
        while part := self.socket.recv(2**16):
            parts.append(part)
        return b"".join(parts)


def problem_in(response: bytes, status: int) -> dict[str, Any]:
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), response
    assert b"application/problem+json" in head.lower()
    document: dict[str, Any] = json.loads(body)
    assert document["status"] == status
    return document


LOCKED = ("/solve", "/certificates", "/calibrations", "/v1/models", "/metrics", "/aggregate")


@pytest.mark.parametrize(
    "trick",
    [
        "{}/",
        "/{}",
        "//{}",
        "/health/..{}",
        "/health/%2e%2e{}",
        "/health;{}",
        "/health{}",
        "/./{}",
        "{}?/health",
        "{}#/health",
        "{}%00",
        "{}%2f",
        "/readyz%2f..{}",
        "http://service/health{}",
    ],
)
def test_no_spelling_of_a_path_opens_it(locked: tuple[str, Running, str], trick: str) -> None:
    url, _, _ = locked
    for path in LOCKED:
        for method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS"):
            spelt = trick.format(path)
            with Wire(url) as wire:
                head = f"{method} {spelt} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                wire.send(head.encode())
                status = int(wire.rest().split()[1])
            assert status in (400, 401), (method, spelt, status)


@pytest.mark.parametrize("path", ["/solve/", "//solve", "/health/", "/Solve", "/solve%2F"])
def test_a_path_is_served_under_one_name_alone(open_: tuple[str, Running], path: str) -> None:
    response = httpx.post(f"{open_[0]}{path}", json={}, follow_redirects=False)
    assert response.status_code == 404, "not a redirect either, which could lead out of TLS"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [b"Authorization: Bearer"],
        [b"Authorization: Bearer "],
        [b"Authorization: Basic KEY"],
        [b"Authorization: Bearer rlcm_x_y"],
        [b"Authorization: Bearer KEY", b"Authorization: Bearer rlcm_x_y"],
        [b"Authorization: Bearer KEYx"],
        [b"Authorization: Bearer \xff\xfe"],
        [b"X-API-Key: " + b"rlcm_" * 5000],
        [b"Cookie: Authorization=Bearer KEY"],
    ],
)
def test_nothing_but_the_key_opens(locked: tuple[str, Running, str], headers: list[bytes]) -> None:
    url, _, key = locked
    lines = b"".join(line.replace(b"KEY", key.encode()) + b"\r\n" for line in headers)
    with Wire(url) as wire:
        wire.send(
            b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%b\r\n" % lines
        )
        told = problem_or_envelope(wire.rest())
    assert told["status"] == 401
    assert key not in json.dumps(told)


def problem_or_envelope(response: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(response.partition(b"\r\n\r\n")[2])
    found: dict[str, Any] = document.get("error", {}).get("rlcm", document)
    return found


BODY = json.dumps({"problem": "A dial shows 3. A up 5.", "alpha": 0.1}).encode()


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nContent-Length: 60",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Transfer-Encoding: identity, chunked, identity",
        b"Content-Length: +60",
        b"Content-Length: 6_0",
        b"Content-Length: -1",
        b"Content-Length: 0x3c",
        b"Content-Length : 60",
        b" Content-Length: 60",
    ],
)
def test_lengths_that_can_be_read_in_two_ways_are_refused(
    open_: tuple[str, Running], head: bytes
) -> None:
    """A proxy may read them in the other way, and take the rest for another's request."""
    with Wire(open_[0]) as wire:
        start = b"POST /solve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        wire.send(
            start + head + b"\r\n\r\n" + BODY + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        response = wire.rest()
    problem_in(response, 400)
    assert response.count(b"HTTP/1.1 ") == 1, "and the connection is closed"


def test_headers_without_end_are_cut_off(open_: tuple[str, Running]) -> None:
    def send_for_ever(wire: Wire) -> None:
        wire.send(b"GET /health HTTP/1.1\r\n")
        for number in range(100_000):
            wire.send(b"X-%d: %b\r\n" % (number, b"a" * 1000))

    with Wire(open_[0]) as wire, pytest.raises(OSError, match=r"(?i)reset|broken pipe"):
        send_for_ever(wire)
    with Wire(open_[0]) as wire:
        wire.send(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: "
            + b"a" * (http_protocol.MOST_OF_HEAD + 1)
        )
        assert "headers" in problem_in(wire.rest(), 431)["detail"]


def test_many_headers_that_fit_are_taken(open_: tuple[str, Running]) -> None:
    headers = {f"X-{number}": "a" * 100 for number in range(300)}
    assert httpx.get(f"{open_[0]}/health", headers=headers).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nX-A: b\r\n"])
def test_a_client_that_never_asks_is_hung_up_on(
    open_: tuple[str, Running], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_protocol, "LONGEST_HEAD", 0.2)
    with Wire(open_[0]) as wire:
        wire.send(sent)
        problem_in(wire.rest(), 408)


def test_a_second_request_has_its_own_time(
    open_: tuple[str, Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "LONGEST_HEAD", 0.4)
    with Wire(open_[0]) as wire:
        for _ in range(4):
            wire.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.response().startswith(b"HTTP/1.1 200")
            time.sleep(0.2)
        wire.send(b"GET /hea")
        problem_in(wire.rest(), 408)


@pytest.mark.parametrize(
    "path", ["/solve", "/v1/chat/completions", "/v1/responses", "/calibrations"]
)
def test_a_body_that_never_ends_is_refused(
    open_: tuple[str, Running], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(access, "LONGEST_SILENCE", 0.2)
    query = "?alphas=0.1" if path == "/calibrations" else ""
    with Wire(open_[0]) as wire:
        head = (
            f"POST {path}{query} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        )
        wire.send(f"{head}Connection: close\r\nContent-Length: 60\r\n\r\n".encode() + b'{"prob')
        assert problem_or_envelope(wire.rest())["status"] == 408


def test_a_long_wait_for_an_answer_is_no_slow_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LONGEST_SILENCE", 0.1)
    with listening(tmp_path, Script(stays=True)) as (url, _):
        body = json.loads(BODY) | {"timeout_s": 0.5}
        assert httpx.post(f"{url}/solve", json=body).status_code == 504


def test_a_client_that_does_not_read_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "LONGEST_STALL", 0.3)
    many = Script(confidences=(0.5,), own="x" * 2**22)
    with listening(tmp_path, many) as (url, running), Wire(url) as wire:
        body = json.dumps(json.loads(BODY) | {"stream": True, "stream_tokens": True}).encode()
        head = b"POST /solve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        wire.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        deadline = time.monotonic() + 10
        while not gone(url) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert gone(url) == 1
        assert running.context.draining.running == 0


def gone(url: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("rlcm_http_clients_gone_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_json_that_is_none_is_refused_as_such(open_: tuple[str, Running]) -> None:
    kind = {"content-type": "application/json"}
    for content in (b"\xff\xfe", b'{"problem": "\xff"}', b"[" * 100_000, b"nul", b'{"a": 1}}'):
        for path in ("/solve", "/v1/chat/completions", "/v1/responses"):
            response = httpx.post(f"{open_[0]}{path}", content=content, headers=kind)
            assert response.status_code == (422 if path == "/solve" else 400), content[:20]
            assert len(response.content) < 1000


def test_405_names_all_methods_of_a_path(open_: tuple[str, Running]) -> None:
    response = httpx.put(f"{open_[0]}/calibrations")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")
    response = httpx.put(f"{open_[0]}/calibrations/a")
    assert (response.status_code, response.headers["allow"]) == (405, "DELETE, GET")


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_log_line_holds_a_question_an_answer_or_a_key(
    locked: tuple[str, Running, str], form: str
) -> None:
    url, running, key = locked
    written = StringIO()
    root, before = logging.getLogger(), list(logging.getLogger().handlers)
    try:
        logs.configure("debug", form, written)
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
            asked = {"problem": SECRET, "alpha": 0.1}
            for stream in (False, True):
                client.post("/solve", json=asked | {"stream": stream, "return_trace": True})
            client.post("/solve", json=asked | {"alpha": SECRET})
            client.post("/solve", content=json.dumps(asked)[:-1])
            client.post("/v1/chat/completions", json={"model": SECRET, "messages": []})
            client.post("/v1/responses", json={"model": SECRET, "input": SECRET})
            client.post("/v1/responses", json={"model": "scripted", "input": SECRET})
            client.get("/certificates/x%0A2026 fake line", params={"q": SECRET})
            prompt = running.engine.prompt
            running.engine.prompt = None  # type: ignore[assignment, method-assign]
            assert client.post("/solve", json=asked).status_code == 500
            running.engine.prompt = prompt  # type: ignore[method-assign]
            client.get("/certificates", headers={"Authorization": f"Bearer {key}x"})
            client.get("/certificates", headers={"X-Request-ID": "a b\tc"})
    finally:
        logs.configure()
        root.handlers = before
    lines = written.getvalue()
    assert "unexpected error" in lines, "it was listened to"
    assert "12345678" not in lines
    assert key.rpartition("_")[2] not in lines
    assert not any(line.startswith("2026 fake") for line in lines.splitlines())
