"""What a key sees of other keys: the whole app around a scripted engine, with keys on."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from rlcm_serve.settings import Settings
from rlcm_serve.store.calibration_tables import OwnerRow
from rlcm_serve.store.caller import Limits, Scope
from rlcm_serve.store.job import CalibrationRequest
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.jobs.problem_engine import problems

pytestmark = pytest.mark.anyio


class Tenants:
    """A running app with keys of some scopes."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.keys: dict[str, tuple[str, str]] = {}
        for name, scope in (
            ("one", Scope.SOLVE),
            ("two", Scope.SOLVE),
            ("scraper", Scope.METRICS),
            ("operator", Scope.ADMIN),
        ):
            text, record = running.context.keys.create(name, [scope])
            self.keys[name] = text, record.id

    async def get(self, name: str, path: str) -> httpx.Response:
        return await self.running.client.get(path, headers={"X-API-Key": self.keys[name][0]})

    async def overview(self, name: str) -> dict[str, Any]:
        response = await self.get(name, "/overview")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def ask(self, name: str) -> None:
        response = await self.running.client.post(
            "/solve",
            json={"problem": PROBLEM, "alpha": 0.1},
            headers={"X-API-Key": self.keys[name][0]},
        )
        assert response.status_code == 200, response.text

    def job(self, id_: str, owner: str | None) -> None:
        """Stores a job; nobody could start one with a `solve` key."""
        key_id = None if owner is None else self.keys[owner][1]
        self.running.context.jobs.store.create(id_, CalibrationRequest(), problems(3), key_id)


@pytest.fixture
async def tenants(tmp_path: Path) -> AsyncIterator[Tenants]:
    settings = Settings(auth="on", state=tmp_path)
    async with serving(settings=settings) as running:
        yield Tenants(running)


@pytest.mark.parametrize("path", ["/calibrations/cal_2", "/calibrations/cal_2/events"])
async def test_the_job_of_another_key_does_not_exist(tenants: Tenants, path: str) -> None:
    tenants.job("cal_2", "two")
    found = await tenants.get("one", path)
    unknown = await tenants.get("one", path.replace("cal_2", "cal_3"))
    assert (found.status_code, unknown.status_code) == (404, 404)
    assert found.text.replace("cal_2", "cal_3") == unknown.text


async def test_a_key_sees_its_own_jobs_and_an_admin_all(tenants: Tenants) -> None:
    for id_, owner in (("cal_1", "one"), ("cal_2", "two"), ("cal_0", None)):
        tenants.job(id_, owner)

    async def listed(name: str) -> list[str]:
        jobs = (await tenants.get(name, "/calibrations")).json()["calibrations"]
        assert {job["id"] for job in (await tenants.overview(name))["jobs"]} == {
            job["id"] for job in jobs
        }
        return sorted(job["id"] for job in jobs)

    assert await listed("one") == ["cal_1"]
    assert await listed("two") == ["cal_2"]
    assert await listed("operator") == ["cal_0", "cal_1", "cal_2"]
    assert (await tenants.get("two", "/calibrations/cal_2")).status_code == 200


async def test_a_deleted_job_leaves_no_owner(tenants: Tenants) -> None:
    tenants.job("cal_1", "one")
    headers = {"X-API-Key": tenants.keys["operator"][0]}
    for _ in range(2):  # the first one cancels it
        response = await tenants.running.client.delete("/calibrations/cal_1", headers=headers)
        assert response.status_code == 200, response.text
    with tenants.running.context.database.reading() as session:
        assert session.scalars(select(OwnerRow)).all() == []
    assert (await tenants.get("one", "/calibrations/cal_1")).status_code == 404


async def test_the_overview_of_a_key_counts_only_its_own_questions(tenants: Tenants) -> None:
    for name in ("one", "one", "two"):
        await tenants.ask(name)
    seen = {name: await tenants.overview(name) for name in tenants.keys}
    done = {
        name: (found["figures"], found["questions"]["answered"] + found["questions"]["abstained"])
        for name, found in seen.items()
    }
    assert done == {
        "one": ("key", 2),
        "two": ("key", 1),
        "scraper": ("service", 3),
        "operator": ("service", 3),
    }
    assert [name for name, found in seen.items() if found["may_administer"]] == ["operator"]
    assert seen["one"]["tokens"]["reasoning"] == 2 * seen["two"]["tokens"]["reasoning"] > 0
    assert seen["one"]["requests"]["in_flight"] is None
    assert seen["one"]["engine"]["requests"] is None
    assert seen["one"]["engine"]["state"] == "ready"


async def test_metrics_are_for_those_who_may_read_them(tenants: Tenants) -> None:
    statuses = {name: (await tenants.get(name, "/metrics")).status_code for name in tenants.keys}
    assert statuses == {"one": 403, "two": 403, "scraper": 200, "operator": 200}
    refused = (await tenants.get("one", "/metrics")).json()["detail"]
    assert "needs a key with scope metrics" in refused


async def test_a_key_for_metrics_opens_nothing_else(tenants: Tenants) -> None:
    for path in ("/calibrations", "/certificates", "/v1/models"):
        assert (await tenants.get("scraper", path)).status_code == 403


async def test_limits_per_minute_are_told_in_the_headers_of_openai(tenants: Tenants) -> None:
    limits = Limits(requests_per_minute=2, tokens_per_minute=10_000)
    text, _ = tenants.running.context.keys.create("limited", [Scope.SOLVE], limits)

    async def ask(path: str, body: dict[str, Any]) -> httpx.Response:
        return await tenants.running.client.post(path, json=body, headers={"X-API-Key": text})

    first = await ask("/solve", {"problem": PROBLEM, "alpha": 0.1})
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert first.headers["x-ratelimit-remaining-requests"] == "1"
    reset = first.headers["x-ratelimit-reset-requests"]
    assert 20 < float(reset.removesuffix("s")) <= 30
    used = first.json()["usage"]["total_tokens"]
    assert int(first.headers["x-ratelimit-remaining-tokens"]) >= 10_000 - used - 1
    messages = [{"role": "user", "content": PROBLEM}]
    await ask("/v1/chat/completions", {"model": "scripted", "messages": messages})
    for path, body in (
        ("/solve", {"problem": PROBLEM, "alpha": 0.1}),
        ("/v1/chat/completions", {"model": "scripted", "messages": messages}),
        ("/v1/responses", {"model": "scripted", "input": PROBLEM}),
        ("/aggregate", {"rollouts": []}),
    ):
        refused = await ask(path, body)
        assert refused.status_code == 429, refused.text
        assert "rate" in refused.text
        assert "has spent its 2 requests per minute" in refused.text
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        milliseconds = int(refused.headers["retry-after-ms"])
        assert 20_000 < milliseconds <= 30_000
        assert refused.headers["retry-after"] == str(math.ceil(milliseconds / 1000))
    assert (await tenants.get("one", "/overview")).status_code == 200


async def test_a_key_that_owes_tokens_waits(tenants: Tenants) -> None:
    limits = Limits(tokens_per_minute=10)
    text, _ = tenants.running.context.keys.create("limited", [Scope.SOLVE], limits)
    found = [
        await tenants.running.client.post(
            "/solve", json={"problem": PROBLEM, "alpha": 0.1}, headers={"X-API-Key": text}
        )
        for _ in range(2)
    ]
    assert [response.status_code for response in found] == [200, 429]
    owed = found[0].json()["usage"]["total_tokens"] - 10
    wait = 6 * (owed + 1)
    assert wait - 10 < int(found[1].headers["retry-after"]) <= wait + 1


async def test_a_service_without_limits_adds_no_headers(tenants: Tenants) -> None:
    response = await tenants.running.client.post(
        "/solve",
        json={"problem": PROBLEM, "alpha": 0.1},
        headers={"X-API-Key": tenants.keys["one"][0]},
    )
    assert not [name for name in response.headers if name.startswith("x-ratelimit")]
