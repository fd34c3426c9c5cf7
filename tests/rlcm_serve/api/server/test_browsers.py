"""Which requests of web pages are refused, by their headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving

BODY = {"problem": PROBLEM, "alpha": 0.1, "on_infeasible": "full_budget"}
EVIL = "https://evil.example"


@pytest.fixture
async def ready() -> AsyncIterator[Running]:
    async with serving() as running:
        yield running


async def solve(running: Running, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await running.client.post("/solve", json=BODY, headers=named)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost"},
        {"origin": "http://localhost", "sec_fetch_site": "same-origin"},
        {"host": "LOCALHOST.:8000", "origin": "http://localhost:8000"},
        {"host": "[::1]:8000"},
        {"host": "127.0.0.9:1"},
        # A proxy that changes the host: the browser itself says that it is the page's own service.
        {"origin": "https://rlcm.example", "sec_fetch_site": "same-origin"},
    ],
)
async def test_programs_and_the_page_itself_are_served(
    ready: Running, headers: dict[str, str]
) -> None:
    assert (await solve(ready, **headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://localhost", "sec_fetch_site": "cross-site"},
        {"origin": EVIL, "sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "anything"},
    ],
)
async def test_pages_of_other_origins_are_refused(ready: Running, headers: dict[str, str]) -> None:
    response = await solve(ready, **headers)
    assert response.status_code == 403
    problem = response.json()
    assert problem["type"] == "urn:rlcm:problem:cross-origin"
    assert "cors_origins" in problem["detail"]
    assert ready.engine.policies == [], "nothing was asked"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/solve"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/responses"),
        ("POST", "/aggregate"),
        ("POST", "/certificates"),
        ("POST", "/certificates/abc/activate"),
        ("POST", "/certificates/abc/deactivate"),
        ("POST", "/calibrations"),
        ("DELETE", "/calibrations/abc"),
    ],
)
async def test_every_route_with_an_effect_refuses_them(
    ready: Running, method: str, path: str
) -> None:
    response = await ready.client.request(method, path, headers={"origin": EVIL})
    assert response.status_code == 403
    assert "evil.example" in response.text


async def test_no_route_with_an_effect_is_missing_above(ready: Running) -> None:
    document = (await ready.client.get("/openapi.json")).json()
    methods = {method for item in document["paths"].values() for method in item}
    assert methods <= {"get", "post", "delete"}, "GET is the only method that is not checked"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "10.0.0.1", ""],
)
async def test_without_keys_other_names_are_refused(ready: Running, host: str) -> None:
    for path in ("/", "/overview", "/page/about", "/solve", "/v1/models", "/openapi.json"):
        response = await ready.client.get(path, headers={"host": host})
        assert response.status_code == 421, path
        assert "allowed_hosts" in response.text
    for path in ("/health", "/readyz", "/metrics"):
        assert (await ready.client.get(path, headers={"host": host})).status_code == 200


async def test_a_forwarded_host_does_not_count(ready: Running) -> None:
    headers = {
        "host": "evil.example",
        "x-forwarded-host": "localhost",
        "forwarded": "host=localhost",
    }
    assert (await ready.client.get("/", headers=headers)).status_code == 421


async def hosts_served(tmp_path: Path, hosts: list[str], **options: Any) -> list[str]:
    """Those of these names under which the page is served."""
    async with serving(settings=Settings(state=tmp_path, **options)) as running:
        found = [await running.client.get("/", headers={"host": host}) for host in hosts]
    return [host for host, response in zip(hosts, found, strict=True) if response.is_success]


async def test_names_of_the_settings_are_served(tmp_path: Path) -> None:
    hosts = ["RLCM.example:8443", "fd00::7", "[fd00::7]:80", "localhost", "other.example"]
    served = await hosts_served(tmp_path, hosts, allowed_hosts=["rlcm.example", "fd00::7"])
    assert served == ["RLCM.example:8443", "[fd00::7]:80", "localhost"]


async def test_with_keys_any_name_is_served_unless_some_are_set(tmp_path: Path) -> None:
    hosts = ["rlcm.example", "other.example", "127.0.0.1", "10.0.0.7"]
    assert await hosts_served(tmp_path, hosts, auth="on") == hosts
    named = {"auth": "on", "host": "10.0.0.7", "allowed_hosts": ["rlcm.example"]}
    assert await hosts_served(tmp_path, hosts, **named) == ["rlcm.example", "127.0.0.1", "10.0.0.7"]


async def test_origins_of_the_settings_may_call(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, cors_origins=["https://app.example"])
    async with serving(settings=settings) as running:
        site = {"sec_fetch_site": "cross-site"}
        assert (await solve(running, origin="https://app.example", **site)).status_code == 200
        assert (await solve(running, origin="https://app.example:444", **site)).status_code == 403
        assert (await solve(running, origin=EVIL)).status_code == 403


async def test_pages_of_those_origins_may_read_what_is_left_of_their_limits(tmp_path: Path) -> None:
    settings = Settings(
        state=tmp_path, cors_origins=["https://app.example"], requests_per_minute=60
    )
    async with serving(settings=settings) as running:
        response = await solve(running, origin="https://app.example")
    readable = {
        name.strip().lower()
        for name in response.headers["access-control-expose-headers"].split(",")
    }
    assert {"retry-after", "location", "x-request-id"} <= readable
    limits = {name for name in response.headers if name.startswith("x-ratelimit-")}
    assert limits <= readable


def test_an_allowed_host_is_a_name_alone(tmp_path: Path) -> None:
    for name in ("https://a.example", "a.example:80", "*", "a b", "b\u00fccher.example"):
        with pytest.raises(ValueError, match=r"allowed_hosts has .*without scheme and port"):
            Settings(state=tmp_path, allowed_hosts=[name])
