"""Kinds of questions over HTTP: every interface takes a kind, and says what holds for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from calibration import ExitPolicy
from tests.rlcm_serve.api.openai_client import client_of
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.scripted_engine import Script
from tests.rlcm_serve.solving.test_kinds import ALGEBRA, ALL, POOLED, of_kind

SURE = Script(confidences=(0.97,), c_end=0.98)


@pytest.fixture
async def ready(tmp_path: Path) -> AsyncIterator[Running]:
    files = [tmp_path / f"{number}.json" for number in range(len(ALL))]
    for made, file in zip(ALL, files, strict=True):
        made.save(file)
    async with serving(SURE, certificates=files) as running:
        yield running


async def test_solve_takes_a_kind(ready: Running) -> None:
    promised = (await ready.solve(kind="algebra")).json()["guarantee"]
    assert promised["certificate"] == ALGEBRA.id
    assert promised["kind"] == "algebra"
    assert "of kind 'algebra'" in promised["statement"]
    assert (await ready.solve()).json()["guarantee"]["kind"] is None


async def test_an_unknown_kind_is_answered_without_a_guarantee(ready: Running) -> None:
    reply = (await ready.solve(kind="history")).json()
    assert reply["answer"] is not None
    assert reply["guarantee"] is None
    assert "kind is 'history'" in reply["no_guarantee_reason"]


async def test_a_kind_is_a_short_text(ready: Running) -> None:
    for kind in ("", "k" * 201, 3):
        response = await ready.solve(kind=kind)
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == "kind"


async def test_openai_clients_name_a_kind(ready: Running) -> None:
    named = {"kind": "algebra"}
    async with client_of(ready.app) as client:
        chat = await client.chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": PROBLEM}],
            extra_body={**named, "alpha": 0.1},
        )
        reply = await client.responses.create(
            model="scripted", input=PROBLEM + " B up 1.", extra_body={**named, "alpha": 0.1}
        )
    for one in (chat, reply):
        assert one.model_extra is not None
        assert one.model_extra["rlcm"]["guarantee"]["certificate"] == ALGEBRA.id


async def test_a_question_that_was_declined_is_the_same_under_another_kind(
    tmp_path: Path,
) -> None:
    """Otherwise a caller could ask once for each kind."""
    strict = ExitPolicy(lambda_high=0.95, lambda_answer=0.5)
    file = tmp_path / "pooled.json"
    of_kind(None, {0.1: strict}).save(file)
    doubtful = Script(confidences=(0.1,), c_end=0.0)
    async with serving(doubtful, certificates=[file]) as running:
        first = (await running.solve()).json()
        again = (await running.solve(kind="algebra")).json()
    assert first["abstained"]
    assert first["guarantee"] is not None
    assert again["guarantee"] is None
    assert "asked before" in again["no_guarantee_reason"]


async def test_certificates_say_their_kind(ready: Running) -> None:
    found = (await ready.client.get("/certificates")).json()["certificates"]
    kinds = {one["id"]: one["kind"] for one in found}
    assert kinds[ALGEBRA.id] == {
        "by": "topic",
        "name": "algebra",
        "certified": ["algebra", "geometry", "logic"],
        "pooled": ["poetry"],
        "delta": 0.4,
    }
    assert kinds[POOLED.id]["name"] is None
