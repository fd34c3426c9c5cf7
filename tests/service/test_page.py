"""The page as it goes over a real connection, where nothing straightens paths on the way."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import httpx
import pytest

from rlcm_serve.page import Assets
from rlcm_serve.page.assets import STATIC
from rlcm_serve.settings import Settings
from tests.service.listening import listening

SCRIPT = b"export const answer = 42;\n" * 2000


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HTTPConnection]:
    """To a service that asks for keys, with a page of its own and secrets around it."""
    state = tmp_path_factory.mktemp("state")
    page = state / "static"
    page.mkdir()
    (page / "index.html").write_text("<!doctype html><p>page</p>")
    (page / "main.js").write_bytes(SCRIPT)
    (state / "secret.js").write_text("secret")
    with listening(state, settings=Settings(state=state, auth="on")) as (url, running):
        object.__setattr__(running.context, "assets", Assets(page))
        at = httpx.URL(url)
        connection = HTTPConnection(at.host, at.port or 80, timeout=20)
        yield connection
        connection.close()


def ask(
    connection: HTTPConnection, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    return response, response.read()


def test_one_connection_serves_the_page_again_and_again(connection: HTTPConnection) -> None:
    for _ in range(2):
        response, body = ask(connection, "/")
        assert (response.status, body) == (200, b"<!doctype html><p>page</p>")
        response, body = ask(connection, "/page/main.js", accept_encoding="gzip")
        assert response.getheader("content-encoding") == "gzip"
        assert response.getheader("content-length") == str(len(body))
        assert gzip.decompress(body) == SCRIPT
        etag = response.getheader("etag") or ""
        response, body = ask(connection, "/page/main.js", if_none_match=etag)
        assert (response.status, body) == (304, b"")
        response, body = ask(connection, "/page/main.js", "HEAD")
        assert (response.status, body) == (200, b"")
        assert response.getheader("content-length") == str(len(SCRIPT))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/page/../secret.js",
            "/page/..%2fsecret.js",
            "/page/%2e%2e/secret.js",
            "/page//secret.js",
        ),
        *("/page/main.js/../../secret.js", "/page/..\\secret.js", "/page/%252e%252e/secret.js"),
        *("/page/%ff.js", "/page/./main.js", "/page/index.html/"),
    ],
)
def test_nothing_but_the_page_is_open(connection: HTTPConnection, path: str) -> None:
    response, body = ask(connection, path)
    assert response.status == 404
    assert response.getheader("content-type") == "application/problem+json"
    assert json.loads(body)["type"] == "urn:rlcm:problem:not-found"


@pytest.mark.parametrize(
    "path", ["/page/../overview", "/page/%2e%2e/overview", "/page/..//overview"]
)
def test_no_way_through_the_page_opens_the_rest(connection: HTTPConnection, path: str) -> None:
    response, body = ask(connection, path)
    assert response.status == 404
    assert b"uptime_s" not in body
    assert ask(connection, "/overview")[0].status == 401


def test_every_file_that_ships_is_found_by_its_address(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    files = [file for file in STATIC.rglob("*") if file.is_file() and file.suffix != ".ts"]
    state: Path = tmp_path_factory.mktemp("shipped")
    with listening(state) as (url, _), httpx.Client(base_url=url) as client:
        for file in files:
            response = client.get(f"/page/{file.relative_to(STATIC).as_posix()}")
            assert (response.status_code, response.content) == (200, file.read_bytes())
