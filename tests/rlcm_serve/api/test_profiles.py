"""Prompt profiles over HTTP: a request names one, and hears of guarantees for that one alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from calibration import ExitPolicy
from rlcm_serve.core import Message, Role
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.settings import Settings
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.api.openai_client import client_of
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.jobs.problem_engine import SCRIPTS
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, certificate, under

SURE = Script(confidences=(0.97,), c_end=0.98)
BRIEF = Profile("brief", system="Be brief.", template="Q: {problem}", max_tokens=64)
POLICY = {0.1: ExitPolicy(lambda_high=0.9)}
OF_MODEL = certificate(POLICY, fingerprint=fingerprint_of(IDENTITY))
OF_BRIEF = certificate(POLICY, fingerprint=fingerprint_of(under(BRIEF)))
READ = (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, f"Q: {PROBLEM}"))


@pytest.fixture
async def ready(tmp_path: Path) -> AsyncIterator[Running]:
    files = [tmp_path / "model.json", tmp_path / "brief.json"]
    OF_MODEL.save(files[0])
    OF_BRIEF.save(files[1])
    async with serving(SURE, certificates=files, profiles=[BRIEF]) as running:
        yield running


async def test_a_profile_has_its_own_prompt_budget_and_guarantee(ready: Running) -> None:
    reply = (await ready.solve(profile="brief")).json()
    assert ready.engine.asked == [("brief", READ)]
    assert reply["guarantee"]["certificate"] == OF_BRIEF.id
    assert ready.engine.drawings[0].budget.thinking == 64
    reply = (await ready.solve()).json()
    assert reply["guarantee"]["certificate"] == OF_MODEL.id
    assert reply["profile"] == "default"


async def test_a_conversation_with_the_profiles_system_prompt_is_under_it(ready: Running) -> None:
    messages = [{"role": "system", "content": "Be brief.\n"}, {"role": "user", "content": PROBLEM}]
    reply = (await ready.client.post("/solve", json={"messages": messages, "alpha": 0.1})).json()
    assert ready.engine.asked == [("brief", READ)]
    assert reply["profile"] == "brief"
    assert reply["guarantee"]["certificate"] == OF_BRIEF.id


async def test_a_profile_that_is_not_served_is_a_422_before_any_wait(ready: Running) -> None:
    response = await ready.solve(profile="breif")
    assert response.status_code == 422
    body = response.json()
    assert body["errors"][0]["field"] == "profile"
    assert "give one of default, brief" in body["detail"]
    assert ready.engine.asked == []


async def test_the_budget_of_the_profile_is_what_a_key_may_not_exceed(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, max_thinking_tokens=80)
    async with serving(SURE, profiles=[BRIEF], settings=settings) as running:
        assert (await running.solve(profile="brief")).status_code == 200
        refused = await running.solve()
        assert refused.status_code == 422, "the model's own budget is 96"


@pytest.mark.parametrize("how", [{"model": "scripted:brief"}, {"extra_body": {"profile": "brief"}}])
async def test_openai_clients_choose_a_profile(ready: Running, how: dict[str, Any]) -> None:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": PROBLEM}]} | how
    async with client_of(ready.app) as client:
        reply = await client.chat.completions.create(**asked)
    assert ready.engine.asked == [("brief", READ)]
    assert reply.rlcm["guarantee"]["certificate"] == OF_BRIEF.id  # type: ignore[attr-defined]
    assert reply.model == asked["model"]


async def test_a_developer_message_is_a_system_prompt(ready: Running) -> None:
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": PROBLEM},
    ]
    async with client_of(ready.app) as client:
        await client.chat.completions.create(model="scripted", messages=messages)
    assert ready.engine.asked == [("brief", READ)]


async def test_a_name_and_a_field_that_disagree_are_refused(ready: Running) -> None:
    messages: Any = [{"role": "user", "content": PROBLEM}]
    async with client_of(ready.app) as client:
        with pytest.raises(openai.BadRequestError, match="ends in 'brief'"):
            await client.chat.completions.create(
                model="scripted:brief", messages=messages, extra_body={"profile": "default"}
            )


async def test_models_are_listed_with_their_profiles(ready: Running) -> None:
    async with client_of(ready.app) as client:
        assert [model.id async for model in client.models.list()] == ["scripted", "scripted:brief"]
        assert (await client.models.retrieve("scripted:brief")).id == "scripted:brief"
        with pytest.raises(openai.NotFoundError, match="use 'scripted', 'scripted:brief'"):
            await client.models.retrieve("scripted:breif")


async def test_certificates_and_the_overview_say_which_profile_they_are_for(
    ready: Running,
) -> None:
    listed = (await ready.client.get("/certificates")).json()["certificates"]
    now = (await ready.client.get("/overview")).json()["certificates"]
    for found in (listed, now):
        profiles = {one["id"]: one["profiles"] for one in found}
        assert profiles == {OF_MODEL.id: ["default"], OF_BRIEF.id: ["brief"]}


async def test_the_certificate_of_one_profile_does_not_replace_that_of_another(
    ready: Running,
) -> None:
    other = certificate({0.1: ExitPolicy(lambda_high=0.8)}, fingerprint=OF_BRIEF.fingerprint)
    posted = await ready.client.post("/certificates", json=other.to_json())
    assert posted.json()["profiles"] == ["brief"]
    await ready.client.post(f"/certificates/{other.id}/activate")
    active = [one.id for one in ready.service.guarantees.certificates]
    assert sorted(active) == sorted([OF_MODEL.id, other.id])


async def post_job(running: Running, **query: Any) -> httpx.Response:
    rows = "".join(f'{{"problem": "Problem {n}", "answer": 7}}\n' for n in range(40))
    return await running.client.post(
        "/calibrations",
        params={"alphas": 0.2, "method": "chains"} | query,
        content=rows,
        headers={"content-type": "application/x-ndjson"},
    )


@pytest.mark.slow
async def test_a_job_records_under_its_profile_and_its_certificate_is_for_that_one() -> None:
    async with serving(*SCRIPTS, profiles=[BRIEF]) as running:
        posted = (await post_job(running, profile="brief", activate=True)).json()
        assert posted["asked"]["profile"] == "brief"
        async for job in running.context.jobs.watch(posted["id"]):
            last = job
        assert last.error is None
        assert {name for name, _ in running.engine.asked} == {"brief"}
        reply = (await running.solve(alpha=0.2, profile="brief")).json()
        assert reply["guarantee"]["certificate"] == last.certificate
        reply = (await running.solve(alpha=0.2)).json()
        assert reply["guarantee"] is None
        assert "profiles with a certificate: brief" in reply["no_guarantee_reason"]


async def test_a_job_for_a_profile_that_is_not_served_is_refused(ready: Running) -> None:
    response = await post_job(ready, profile="breif")
    assert response.status_code == 422
    assert "give one of default, brief" in response.json()["detail"]
