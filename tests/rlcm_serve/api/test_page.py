"""`/` and `/page/` over HTTP, against the whole app."""

import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from calibration import Certificate, Promise
from calibration.simulation.groups import Average, Groups
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.page import Assets
from rlcm_serve.page.demo import is_promise_of_demo
from rlcm_serve.settings import Settings
from rlcm_serve.solving.guarantees import Guarantees
from tests.rlcm_serve.api.serving import Running, serving, starting

pytestmark = pytest.mark.anyio

DEMO = EMBEDDED_MODEL / "certificates" / "selective-1.json"
SCRIPT = "export const answer = 42;\n" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    page = tmp_path / "static"
    (page / "js").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html><title>rlcm</title>" + "<p>words</p>" * 50)
    (page / "js" / "main.js").write_text(SCRIPT)
    (page / "dot.png").write_bytes(b"\x89PNG" + b"\0" * 400)
    return page


@pytest.fixture
async def running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """An app that asks for keys, and has a page of its own."""
    settings = Settings(state=folder.parent, auth="on")
    async with serving(settings=settings) as running:
        object.__setattr__(running.context, "assets", Assets(folder))
        yield running


async def fetch(running: Running, path: str, **headers: str) -> httpx.Response:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return await running.client.get(path, headers={"accept-encoding": "identity"} | shown)


async def test_the_page_needs_no_key_and_lets_nothing_else_in(running: Running) -> None:
    response = await fetch(running, "/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.text.startswith("<!doctype html>")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = dict(
        part.split(" ", 1) for part in response.headers["content-security-policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


async def test_files_have_their_types_and_are_not_guessed_at(running: Running) -> None:
    script = await fetch(running, "/page/js/main.js")
    assert (script.status_code, script.text) == (200, SCRIPT)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["x-content-type-options"] == "nosniff"
    assert (await fetch(running, "/page/dot.png")).headers["content-type"] == "image/png"


@pytest.mark.parametrize(
    ("accepted", "gzipped"),
    [
        *(("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("gzip;q=0.001", True)),
        *(("", False), ("identity", False), ("br", False), ("gzip;q=0", False)),
        *(("gzip; q=0.000, *", False), ("*;q=0", False), ("x-gzipped", False)),
    ],
)
async def test_who_takes_gzip_gets_it(running: Running, accepted: str, gzipped: bool) -> None:
    async with running.client.stream(
        "GET", "/page/js/main.js", headers={"accept-encoding": accepted}
    ) as response:
        sent = b"".join([part async for part in response.aiter_raw()])
    assert response.headers.get("content-encoding") == ("gzip" if gzipped else None)
    assert (gzip.decompress(sent) if gzipped else sent) == SCRIPT.encode()
    assert response.headers["content-length"] == str(len(sent))
    assert response.headers["vary"] == "Accept-Encoding"


async def test_who_has_a_file_is_not_sent_it_again(running: Running, folder: Path) -> None:
    plain = await fetch(running, "/page/js/main.js")
    packed = await fetch(running, "/page/js/main.js", accept_encoding="gzip")
    tags = plain.headers["etag"], packed.headers["etag"]
    assert tags[0] != tags[1], "they are different bytes"
    for shown in (*tags, f"W/{tags[0]}", f'"other", {tags[1]}', "*"):
        again = await fetch(running, "/page/js/main.js", if_none_match=shown)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tags[0]
        assert again.headers["cache-control"] == "no-cache"
        assert "content-type" not in again.headers
    for shown in ('"other"', "other", ""):
        assert (await fetch(running, "/page/js/main.js", if_none_match=shown)).status_code == 200
    (folder / "js" / "main.js").write_text("changed")
    changed = await fetch(running, "/page/js/main.js", if_none_match=tags[0])
    assert (changed.status_code, changed.text) == (200, "changed")


async def test_head_is_get_without_the_body(running: Running) -> None:
    for path in ("/", "/page/js/main.js", "/page/about"):
        get, head = (
            await fetch(running, path),
            await running.client.head(path, headers={"accept-encoding": "identity"}),
        )
        assert (head.status_code, head.content) == (200, b"")
        same = ("content-type", "content-length", "etag", "cache-control")
        assert [head.headers.get(name) for name in same] == [get.headers.get(name) for name in same]


@pytest.mark.parametrize(
    "path",
    [
        "/page/none.js",
        "/page/",
        "/page/%2e%2e/rlcm.db",
        "/page/js",
    ],
)
async def test_a_missing_file_gets_an_error_response(running: Running, path: str) -> None:
    request = running.client.build_request("GET", "/")
    request.url = request.url.copy_with(raw_path=path.encode())
    response = await running.client.send(request)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert "the page has no file" in response.json()["detail"]


async def test_no_path_below_the_page_opens_what_keys_are_for(running: Running) -> None:
    for path in ("/page", "/pages/x", "/page/%2e%2e/overview", "/page/%2E%2E/metrics", "/overview"):
        request = running.client.build_request("GET", "/")
        request.url = request.url.copy_with(raw_path=path.encode())
        assert request.url.raw_path == path.encode()
        assert (await running.client.send(request)).status_code in (401, 404)
    assert (await running.client.post("/page/about")).status_code == 405


async def test_about_says_what_the_page_must_know(running: Running) -> None:
    response = await fetch(running, "/page/about")
    assert response.json() == {
        "model": "scripted",
        "version": version("rlcm-serve"),
        "keys": True,
        "examples": False,
        "heartbeat_s": 15.0,
        "demo": False,
    }
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("name", "shown", "examples"),
    [
        ("embedded", "embedded", True),
        ("rlcm_serve/models/embedded", "rlcm_serve/models/embedded", True),
        ("/srv/secret/my-model", "my-model", False),
        ("./my-model", "my-model", False),
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B", False),
    ],
)
async def test_about_names_the_model_and_not_where_it_lies(
    name: str, shown: str, examples: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "/models/" in name:
        name = str(Path(__file__).parents[3] / name)
        shown = "embedded"
    async with starting() as running:
        running.engine.name = name
        found = (await fetch(running, "/page/about")).json()
    assert (found["model"], found["examples"], found["keys"]) == (shown, examples, False)


async def test_openapi_does_not_tell_of_it(running: Running) -> None:
    document = (await running.client.get("/openapi.json")).json()
    assert not [path for path in document["paths"] if path == "/" or path.startswith("/page")]


async def test_it_is_served_to_the_last(running: Running) -> None:
    running.context.draining.close()
    assert (await fetch(running, "/")).status_code == 200
    assert (await fetch(running, "/page/js/main.js")).status_code == 200


async def test_the_shipped_page_is_complete() -> None:
    async with serving() as running:
        page = await fetch(running, "/")
        assert page.status_code == 200
        examples = (await fetch(running, "/page/examples.json")).json()
    assert [family["name"] for family in examples["families"]] == ["dial", "total", "tale"]


async def test_the_demo_needs_no_engine(tmp_path: Path) -> None:
    async with starting(settings=Settings(state=tmp_path, auth="off")) as running:
        object.__setattr__(running.context.service, "certificate_files", (DEMO,))
        assert (await fetch(running, "/page/about")).json()["demo"] is True
        response = await fetch(running, "/page/demo")
        assert response.headers["content-type"] == "application/json"
        body = response.json()
        assert [one["alpha"] for one in body["levels"]] == [0.01, 0.02, 0.05, 0.1, 0.2]
        assert len(body["questions"]) == 100
        tagged = await fetch(running, "/page/demo", if_none_match=response.headers["etag"])
        assert tagged.status_code == 304


async def test_the_demo_shows_no_promise_that_is_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(settings=Settings(state=tmp_path, auth="off")) as running:
        object.__setattr__(running.context.service, "certificate_files", (DEMO,))
        assert (await fetch(running, "/page/about")).json()["demo"] is False, "it is not active"
        assert (await fetch(running, "/page/demo")).status_code == 404
        given = frozenset({Certificate.load(DEMO).id})
        monkeypatch.setattr(Guarantees, "given", given)
        assert (await fetch(running, "/page/about")).json()["demo"] is True


def test_the_demo_shows_no_promise_that_its_words_do_not_say() -> None:
    certificate = Certificate.load(DEMO)
    assert is_promise_of_demo(certificate)
    assert not is_promise_of_demo(replace(certificate, promise=Promise.POINTWISE))
    for average, shown in ((Average.PROBLEMS, True), (Average.GROUPS, False)):
        grouped = replace(certificate, groups=Groups(average))
        assert is_promise_of_demo(grouped) is shown


async def test_recorded_questions_of_other_models_are_not_for_anyone(running: Running) -> None:
    object.__setattr__(running.context.service, "certificate_files", (DEMO,))
    assert (await fetch(running, "/page/about")).json()["demo"] is False
    assert (await fetch(running, "/page/demo")).status_code == 404


async def test_without_recorded_questions_there_is_no_demo(tmp_path: Path) -> None:
    async with starting(settings=Settings(state=tmp_path, auth="off")) as running:
        assert (await fetch(running, "/page/about")).json()["demo"] is False
        assert (await fetch(running, "/page/demo")).status_code == 404
