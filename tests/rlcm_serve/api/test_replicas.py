"""Processes with one engine each that share a database."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from calibration import ExitPolicy
from rlcm_serve.settings import Settings
from rlcm_serve.store.activation import FOLLOW_EVERY
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.scripted_engine import certificate

PATIENCE = 60
EARLY = ExitPolicy(lambda_high=0.9)
ONE = certificate({0.1: EARLY})
OTHER = certificate({0.05: EARLY, 0.1: EARLY})


async def test_a_key_has_its_requests_once_for_all_processes(
    database_url: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        services = [
            await stack.enter_async_context(
                serving(
                    settings=Settings(
                        state=tmp_path / str(number),
                        database=database_url,
                        auth="on",
                        requests_per_minute=5,
                    )
                )
            )
            for number in range(2)
        ]
        text, _ = services[0].context.keys.create("one", [Scope.SOLVE])
        asks = [
            service.client.post(
                "/solve", json={"problem": PROBLEM, "alpha": 0.1}, headers={"X-API-Key": text}
            )
            for service in services * 5
        ]
        responses = await asyncio.gather(*asks)
    accepted = [one for one in responses if one.status_code == 200]
    assert (len(accepted), {one.status_code for one in responses}) == (5, {200, 429})


@pytest.fixture
async def replicas(database_url: str, tmp_path: Path) -> AsyncIterator[list[Running]]:
    """Two of them, both served under ONE, from a file."""
    ONE.save(tmp_path / "one.json")
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                serving(
                    certificates=[tmp_path / "one.json"],
                    settings=Settings(state=tmp_path / str(number), database=database_url),
                )
            )
            for number in range(2)
        ]


async def certificate_of(running: Running) -> str | None:
    """Under which an answer is given now; None if its guarantee was lost on the way."""
    guarantee = (await running.solve()).json()["guarantee"]
    return None if guarantee is None else str(guarantee["certificate"])


async def until_under(running: Running, expected: str) -> None:
    """Waits until answers are given under this certificate."""
    async with asyncio.timeout(PATIENCE):
        while await certificate_of(running) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_what_one_activates_and_deactivates_the_other_follows(
    replicas: list[Running],
) -> None:
    here, there = replicas
    await here.client.post("/certificates", json=OTHER.to_json())
    assert (await here.client.post(f"/certificates/{OTHER.id}/activate")).status_code == 200
    await until_under(there, OTHER.id)
    ended = await there.client.post(f"/certificates/{OTHER.id}/deactivate")
    assert ended.status_code == 200
    assert (await there.solve()).json()["guarantee"]["certificate"] == ONE.id
    await until_under(here, ONE.id)


async def held_at(running: Running) -> asyncio.Task[httpx.Response]:
    """A question that is in the engine; `killed` lets it go on."""
    running.engine.hold(1)
    asking = asyncio.create_task(running.solve())
    async with asyncio.timeout(PATIENCE):
        await running.engine.all_held.wait()
    return asking


async def until_active(running: Running, *ids: str) -> None:
    """Waits until exactly these certificates are active here."""
    async with asyncio.timeout(PATIENCE):
        while {one.id for one in running.service.guarantees.certificates} != {*ids}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_an_answer_has_no_guarantee_of_a_certificate_that_was_deactivated_meanwhile(
    replicas: list[Running],
) -> None:
    here, there = replicas
    asking = await held_at(there)
    ended = await here.client.post(f"/certificates/{ONE.id}/deactivate")
    assert ended.status_code == 200
    await until_active(there)
    there.engine.killed.set()
    given = (await asking).json()
    assert given["answer"] == "7"
    assert given["guarantee"] is None
    assert f"certificate {ONE.id} was deactivated" in given["no_guarantee_reason"]
    assert given["no_guarantee_code"] == "withdrawn"


async def test_the_end_of_a_stream_says_that_its_guarantee_was_lost(
    replicas: list[Running],
) -> None:
    here, there = replicas
    there.engine.hold(2)
    body = {"messages": [{"role": "user", "content": PROBLEM}], "model": "scripted", "stream": True}
    asked = {"problem": PROBLEM + " And now?", "alpha": 0.1, "stream": True}
    asking = [
        asyncio.create_task(there.client.post("/v1/chat/completions", json=body)),
        asyncio.create_task(there.client.post("/solve", json=asked)),
    ]
    async with asyncio.timeout(PATIENCE):
        await there.engine.all_held.wait()
    await here.client.post(f"/certificates/{ONE.id}/deactivate")
    await until_active(there)
    there.engine.killed.set()
    chat, events = [(await one).text for one in asking]
    first, *_, last, _ = [line for line in chat.splitlines() if line.startswith("data: ")]
    assert json.loads(first[6:])["system_fingerprint"] == ONE.id
    assert json.loads(last[6:])["system_fingerprint"] is None
    assert json.loads(last[6:])["rlcm"]["guarantee"] is None
    done = json.loads(events.partition("event: done")[2].partition("data: ")[2].splitlines()[0])
    assert done["guarantee"] is None


async def test_an_answer_keeps_its_guarantee_while_its_certificate_is_active(
    replicas: list[Running],
) -> None:
    here, there = replicas
    asking = await held_at(there)
    other = certificate({0.1: EARLY}, risk="error")
    await here.client.post("/certificates", json=other.to_json())
    assert (await here.client.post(f"/certificates/{other.id}/activate")).status_code == 200
    await until_active(there, other.id, ONE.id)
    there.engine.killed.set()
    assert (await asking).json()["guarantee"]["certificate"] == ONE.id


async def test_what_was_deactivated_while_an_engine_restarted_is_not_served_afterwards(
    replicas: list[Running],
) -> None:
    here, there = replicas
    # As in a restart that has loaded its certificates and is not ready yet.
    solver, there.service._solver = there.service._solver, None
    assert (await here.client.post(f"/certificates/{ONE.id}/deactivate")).status_code == 200
    await until_active(here)
    await asyncio.sleep(2 * FOLLOW_EVERY)
    there.service._solver = solver
    await until_active(there)


async def test_of_activations_at_the_same_moment_all_serve_the_last(
    replicas: list[Running],
) -> None:
    made = [certificate({0.1: EARLY, 0.2 + number / 100: EARLY}) for number in range(4)]
    for one in made:
        await replicas[0].client.post("/certificates", json=one.to_json())
    responses = await asyncio.gather(
        *(
            replicas[number % 2].client.post(f"/certificates/{one.id}/activate")
            for number, one in enumerate(made)
        )
    )
    assert {response.status_code for response in responses} == {200}
    shown = (await replicas[0].client.get("/certificates")).json()["certificates"]
    (active,) = [one["id"] for one in shown if one["active"]]
    for running in replicas:
        await until_under(running, active)
