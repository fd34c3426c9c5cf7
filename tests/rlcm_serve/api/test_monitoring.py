"""Live monitoring as clients and operators see it: the whole app around a scripted engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from calibration import ExitPolicy
from rlcm_serve.settings import Settings
from rlcm_serve.store.answers.table import AnswerRow
from tests.rlcm_serve.api.serving import Running, serving
from tests.rlcm_serve.scripted_engine import Script, certificate

pytestmark = pytest.mark.anyio
POLICY = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)


@pytest.fixture
def certified(tmp_path: Path) -> Path:
    certificate({0.1: POLICY, 0.2: POLICY}).save(tmp_path / "certificate.json")
    return tmp_path / "certificate.json"


def stored(running: Running) -> list[AnswerRow]:
    with running.context.database.reading() as session:
        return list(session.scalars(select(AnswerRow).order_by(AnswerRow.sequence)))


async def answered(running: Running) -> list[AnswerRow]:
    """The rows of all answers given so far."""
    assert running.context.monitoring is not None
    await running.context.monitoring.writer.written()
    return stored(running)


async def chat(running: Running, **changes: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "A dial shows 4."}]
    body = {"model": "scripted", "messages": turns} | changes
    response = await running.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    said: dict[str, Any] = response.json()
    return said


async def test_every_answer_becomes_a_row(certified: Path, tmp_path: Path) -> None:
    scripts = Script(c_end=0.6), Script(c_end=0.2), Script(confidences=(0.95,), c_end=0.95)
    settings = Settings(state=tmp_path, audit_share=1)
    async with serving(*scripts, certificates=[certified], settings=settings) as running:
        given = (await running.solve(alpha=0.15, kind="dials")).json()
        declined = (await running.solve(problem="A dial shows 5.", alpha=0.2)).json()
        early = (await chat(running))["rlcm"]
        full = (await running.solve(problem="A dial shows 6.", temperature=0.3)).json()
        rows = await answered(running)
    assert [row.id for row in rows] == [one["id"] for one in (given, declined, early, full)]
    assert [one["audit"] for one in (given, declined, early, full)] == [True, False, True, True]
    assert [row.answered for row in rows] == [True, False, True, True]
    assert [row.alpha for row in rows] == [0.1, 0.2, 0.1, None]
    assert [row.confidence for row in rows] == [0.6, 0.2, 0.95, 0.6]
    assert {row.certificate[:12] for row in rows[:3] if row.certificate} == {
        given["guarantee"]["certificate"]
    }
    assert rows[3].certificate is None
    assert (rows[0].kind, rows[0].risk, rows[0].profile) == ("dials", "selective", "default")
    usage = given["usage"]
    assert rows[0].tokens == usage["reasoning_tokens"] + usage["answer_tokens"]
    assert all(row.started <= row.time < row.due for row in rows)
    assert {row.question for row in rows} == {None}  # texts are not kept


async def test_streams_say_whether_the_answer_was_drawn(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, audit_share=1)) as running:
        solved = await running.solve(stream=True, on_infeasible="full_budget")
        turns = [{"role": "user", "content": "A dial shows 4."}]
        body = {"model": "scripted", "messages": turns, "stream": True}
        chunks = await running.client.post("/v1/chat/completions", json=body)
        responses = await running.client.post(
            "/v1/responses", json={"model": "scripted", "input": "A dial?", "stream": True}
        )
    done = json.loads(solved.text.rpartition("event: done\ndata: ")[2])
    assert done["audit"] is True
    for streamed in (chunks, responses):
        assert '"audit":true' in streamed.text


async def test_nothing_is_stored_if_monitoring_is_off(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, monitor=False)) as running:
        assert (await running.solve()).json()["audit"] is False
        assert stored(running) == []


async def test_the_share_of_a_kind_is_its_own(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, audit_share=0, audit_shares=["kind:dials=1"])
    async with serving(settings=settings) as running:
        assert (await running.solve()).json()["audit"] is False
        assert (await running.solve(kind="dials")).json()["audit"] is True
        assert [row.audit_share for row in await answered(running)] == [0, 1]
