"""A request that says what its route does not take is refused, not done otherwise than meant."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from calibration import ExitPolicy
from tests.rlcm_serve.api.serving import Running, detail_of, serving
from tests.rlcm_serve.scripted_engine import Script, certificate

MADE = certificate({0.05: None, 0.1: ExitPolicy(lambda_high=0.9)})
ACTIVATE, DEACTIVATE, RESTORE, REHEARSE = (
    f"/certificates/{MADE.id}/{what}" for what in ("activate", "deactivate", "restore", "rehearsal")
)
BODY = {"problem": "A dial shows 3. A up 5.", "alpha": 0.1}
NOT_OURS = ("/v1/", "/health", "/readyz", "/metrics")
"""Where OpenAI's clients, probes and Prometheus send parameters of their own."""


@pytest.fixture
async def ready() -> AsyncIterator[Running]:
    async with serving(Script(c_end=0.6)) as running:
        running.context.certificates.add(MADE, "upload")
        yield running


def refusal_of(response: httpx.Response) -> str:
    return detail_of(response, 422, "invalid-request")


async def is_active(running: Running) -> bool:
    listed = (await running.client.get("/certificates")).json()["certificates"]
    return bool(next(one for one in listed if one["id"] == MADE.id)["active"])


@pytest.mark.parametrize("name", ["dryrun", "dry-run", "dry_Run"])
async def test_a_misspelt_dry_run_activates_nothing(ready: Running, name: str) -> None:
    refused = await ready.client.post(ACTIVATE, params={name: "true"})
    assert refusal_of(refused) == f"{name}: unknown query parameter: did you mean dry_run?"
    assert refused.json()["errors"][0]["field"] == name
    assert not await is_active(ready)


async def test_a_dry_run_in_the_body_activates_nothing(ready: Running) -> None:
    refused = await ready.client.post(ACTIVATE, json={"dry_run": True})
    said = f"POST {ACTIVATE} takes no body: leave it out, and give dry_run in the query"
    assert refusal_of(refused) == said
    assert refused.json()["errors"] == [{"field": "body", "message": said}]
    assert not await is_active(ready)


@pytest.mark.parametrize("path", [DEACTIVATE, RESTORE, REHEARSE])
async def test_a_body_is_refused_where_none_is_taken(ready: Running, path: str) -> None:
    refused = await ready.client.post(path, json={"dry_run": True})
    assert refusal_of(refused) == f"POST {path} takes no body: leave it out"
    refused = await ready.client.post(path, params={"dry_run": True})
    assert refusal_of(refused) == "dry_run: unknown query parameter: leave it out"


async def test_an_empty_body_is_none(ready: Running) -> None:
    async def nothing() -> AsyncIterator[bytes]:  # in chunks: no header says how long it is
        yield b""

    headers = {"Content-Type": "application/json"}
    done = await ready.client.post(ACTIVATE, content=nothing(), headers=headers)
    assert (done.status_code, await is_active(ready)) == (200, True)


async def test_each_unknown_parameter_is_named(ready: Running) -> None:
    assert refusal_of(await ready.client.get("/answers?limt=5&limit=5&colour=red&limt=6")) == (
        "limt: unknown query parameter: did you mean limit?; "
        "colour: unknown query parameter: leave it out"
    )
    many = "&".join(f"p{n}" for n in range(1000))
    assert refusal_of(await ready.client.get(f"/answers?{many}")).endswith("and 980 more errors")


async def test_all_routes_of_the_service_refuse_unknown_parameters(ready: Running) -> None:
    asked = 0
    for path, item in ready.app.openapi()["paths"].items():
        if path.startswith(NOT_OURS):
            continue
        for method, operation in item.items():
            asked += 1
            body = BODY if "requestBody" in operation else None
            place = path.replace("{id}", MADE.id)
            response = await ready.client.request(method, f"{place}?nothing=1", json=body)
            assert "nothing: unknown query parameter" in refusal_of(response), (method, path)
            assert "422" in operation["responses"], (method, path)
    assert asked > 15


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/health", "/readyz", "/metrics", "/openapi.json", "/", "/page/about"],
)
async def test_what_others_send_along_is_ignored(ready: Running, path: str) -> None:
    assert (await ready.client.get(f"{path}?api-version=1")).status_code == 200
