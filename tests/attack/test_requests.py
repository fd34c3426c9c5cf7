"""Requests without a large body: headers, URLs and pages that take long to answer."""

from __future__ import annotations

import gzip
import socket
from contextlib import suppress

import httpx
import pytest

from tests.attack.bodies import solve
from tests.attack.target import Target

pytestmark = pytest.mark.attack


def exchange(target: Target, sent: bytes, timeout: float = 30) -> bytes:
    """What the service answers to these bytes until it hangs up."""
    at = httpx.URL(target.service.url)
    with socket.create_connection((at.host, at.port or 80), timeout=timeout) as connection:
        connection.sendall(sent)
        parts = []
        while part := connection.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


QUERIES = {
    "parameters that no route knows": "&".join(f"p{n}=" for n in range(8_000)),
    "one parameter many times": "&".join(["alphas=9"] * 6_000),
    "one long parameter": f"risk={'a' * 60_000}",
    "escapes": f"risk={'%41' * 20_000}",
}
KEPT = ("/aggregate", "/calibrations")


@pytest.mark.parametrize("path", KEPT)
@pytest.mark.parametrize("name", QUERIES)
def test_a_long_query_leaves_the_loop_free(target: Target, path: str, name: str) -> None:
    with target.watched() as watch:
        for _ in range(4):
            key = f"Authorization: Bearer {target.admin}"
            answer = exchange(target, get(f"{path}?{QUERIES[name]}", key).replace(b"GET", b"POST"))
            assert answer.split()[1] in (b"414", b"422")
            assert len(answer) < 10_000
    watch.require_a_free_loop()


HEADERS = {
    "many headers": [f"a{n}:" for n in range(7_000)],
    "one header many times": ["X-API-Key: a"] * 4_000,
    "a long content type": [f"Content-Type: {';a=b' * 15_000}"],
    "a long cookie": [f"Cookie: {'a=b;' * 15_000}"],
    "many encodings": [f"Accept-Encoding: {'gzip;q=0,' * 6_000}"],
    "many tags": ["If-None-Match: " + 'W/"a",' * 9_000],
    "a long request id": [f"X-Request-ID: {'a' * 60_000}"],
    "a long trace": [f"traceparent: {'00-' * 20_000}"],
}


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/nowhere"])
@pytest.mark.parametrize("name", HEADERS)
def test_many_or_long_headers_leave_the_loop_free(target: Target, path: str, name: str) -> None:
    with target.watched() as watch:
        for _ in range(4):
            assert exchange(target, get(path, *HEADERS[name])).startswith(b"HTTP/1.1 ")
    watch.require_a_free_loop()


def test_many_requests_in_one_packet_leave_the_loop_free(target: Target) -> None:
    with target.watched() as watch:
        last = get("/health")
        many = last.replace(b"Connection: close\r\n", b"") * 5_000
        with suppress(OSError):  # the service may hang up
            exchange(target, many + last)
    watch.require_a_free_loop()


def test_a_body_in_tiny_chunks_leaves_the_loop_free(target: Target) -> None:
    body = solve(problem="a" * 200_000)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = (
        f"POST /solve HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.keys[0]}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with target.watched() as watch, suppress(OSError):  # the service may hang up
        exchange(target, head.encode() + chunks)
    watch.require_a_free_loop()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_compressed_body_is_not_unpacked(target: Target, encoding: str) -> None:
    body = gzip.compress(solve(problem="a" * 10_000_000))
    with target.watched() as watch:
        response = target.send(body, **{"Content-Encoding": encoding})
    assert response.status_code in (400, 415, 422)
    watch.require_a_free_loop()


PAGES = ("/openapi.json", "/", "/overview", "/metrics", "/certificates", "/calibrations")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_that_is_asked_for_often_leaves_the_loop_free(target: Target, path: str) -> None:
    key = f"Authorization: Bearer {target.admin}"
    with target.watched() as watch:
        for _ in range(8):
            assert exchange(target, get(path, key)).startswith(b"HTTP/1.1 200 ")
    watch.require_a_free_loop()
