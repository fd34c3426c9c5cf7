import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rlcm_serve.engine.restart import RestartPolicy
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import Running, serving, starting

pytestmark = pytest.mark.anyio


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with serving() as running:
        yield running


async def statuses(running: Running) -> tuple[int, int]:
    """Of /health and of /readyz, which are the same for GET and HEAD."""
    found = []
    for path in ("/health", "/readyz"):
        get, head = await running.client.get(path), await running.client.head(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        if not get.is_success:
            assert get.headers["content-type"] == "application/problem+json"
        found.append(get.status_code)
    return found[0], found[1]


async def standing(running: Running) -> tuple[str, str]:
    """State and stage of /readyz, which are those of /overview."""
    before = (await running.client.get("/overview")).json()["engine"]
    problem = (await running.client.get("/readyz")).json()
    after = (await running.client.get("/overview")).json()["engine"]
    assert problem["type"] == "urn:rlcm:problem:not-ready"
    said = {(engine["state"], engine["detail"]) for engine in (before, after)}
    assert (problem["state"], problem["stage"]) in said, "it may have changed in between"
    return problem["state"], problem["stage"]


async def test_it_is_alive_while_it_starts_and_ready_after_that() -> None:
    async with starting() as running:
        await asyncio.sleep(0)
        assert await statuses(running) == (200, 503)
        await running.until_settled()
        assert await statuses(running) == (200, 200)


async def test_it_stays_alive_without_its_engine(running: Running) -> None:
    running.engine.kill()
    assert await statuses(running) == (200, 503)


async def test_a_service_that_could_not_start_is_not_alive() -> None:
    async with starting() as running:
        running.engine.dead = True
        await running.until_settled()
        assert await statuses(running) == (503, 503)


@pytest.mark.parametrize("part", ["admission", "draining"])
async def test_a_service_that_stops_is_alive_and_not_ready(running: Running, part: str) -> None:
    getattr(running.context, part).close()
    assert await statuses(running) == (200, 503)
    problem = (await running.client.get("/readyz")).json()
    assert (problem["state"], problem["stage"]) == ("stopping", "stopping")


async def test_a_service_that_is_not_ready_says_why() -> None:
    async with starting() as running:
        await running.until("starting the engine")
        assert await standing(running) == ("starting", "starting the engine")
        await running.until_settled()
        running.engine.kill()
        assert (await standing(running))[0] == "restarting", "it has died this moment"
        await running.until("attempt 1 of 10")
        state, stage = await standing(running)
        assert state == "restarting"
        assert stage.startswith("restarting the engine: ")


async def test_an_engine_that_was_given_up_is_not_waited_for() -> None:
    impatient = RestartPolicy(every=0.01, first_wait=0, attempts=2)
    async with starting(restart_policy=impatient) as running:
        await running.until_settled()
        running.engine.kill()
        await running.until("given up")
        state, stage = await standing(running)
        assert state == "failed"
        assert stage.startswith("the engine is given up after 2 attempts")
        assert await statuses(running) == (503, 503)


async def test_prometheus_can_read_the_metrics(running: Running) -> None:
    await running.solve()
    response = await running.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert len(list(text_string_to_metric_families(response.text))) > 20
    lines = response.text.splitlines()
    assert 'rlcm_questions_total{guarantee="withheld",outcome="answered"} 1.0' in lines
    assert 'rlcm_tokens_total{kind="reasoning"} 40.0' in lines
    assert 'rlcm_http_requests_total{method="POST",route="/solve",status="200"} 1.0' in lines
    assert "rlcm_http_requests_in_flight 1.0" in lines, "the one that asks"
    assert "rlcm_engine_up 1.0" in lines
    assert "rlcm_queue_running 0.0" in lines


async def test_the_metrics_say_that_the_database_is_gone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def up() -> str:
        lines = (await running.client.get("/metrics")).text.splitlines()
        return next(line for line in lines if line.startswith("rlcm_database_up"))

    assert await up() == "rlcm_database_up 1.0"

    async def fault() -> str:
        return "the database did not answer within 2 s"

    monkeypatch.setattr(running.context.database.health, "fault", fault)
    assert await up() == "rlcm_database_up 0.0"


async def test_metrics_take_a_key_unless_they_are_open() -> None:
    async def answer(settings: Settings, **headers: str) -> httpx.Response:
        async with serving(settings=settings) as running:
            if headers:
                key, _ = running.context.keys.create("prometheus", ["metrics"])
                headers = {"Authorization": f"Bearer {key}"}
            return await running.client.get("/metrics", headers=headers)

    assert (await answer(Settings(auth="on"))).status_code == 401
    assert (await answer(Settings(auth="on"), key="any")).status_code == 200
    assert (await answer(Settings(auth="on", metrics_open=True))).status_code == 200
    assert (await answer(Settings())).status_code == 200


async def test_all_of_it_is_described(running: Running) -> None:
    paths = (await running.client.get("/openapi.json")).json()["paths"]
    assert set(paths["/health"]["get"]["responses"]) == {"200", "503"}
    assert set(paths["/readyz"]["get"]["responses"]) == {"200", "503"}
    refused = paths["/readyz"]["get"]["responses"]["503"]["content"]["application/problem+json"]
    assert refused["schema"]["properties"]["state"]["enum"] == [
        *("starting", "restarting", "failed", "stopping", "degraded")
    ]
    assert {"state", "stage"} <= set(refused["schema"]["required"])
    page = paths["/metrics"]["get"]["responses"]["200"]["content"]["text/plain"]
    assert "rlcm_tokens_total" in page["example"]
    for path in ("/health", "/readyz", "/metrics"):
        assert paths[path]["get"]["summary"]
        assert list(paths[path]) == ["get"]
