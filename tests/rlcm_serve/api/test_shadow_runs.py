"""Shadow runs as callers and operators see them: the whole app around a scripted engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from calibration import FULL_BUDGET, ExitPolicy
from rlcm_serve.api.monitoring import shadows
from rlcm_serve.monitoring.running import betting
from rlcm_serve.settings import Settings
from rlcm_serve.solving.shadow import full_budget, runs
from tests.rlcm_serve.api.serving import PATIENCE, Running, serving
from tests.rlcm_serve.scripted_engine import BUDGET, INTERVAL, Script, certificate

pytestmark = pytest.mark.anyio
EARLY = Script(confidences=(0.95,), forced="7}")
SAME, OTHER = (Script(ends_at=40, own=rf"It is \boxed{{{answer}}}.") for answer in "78")
POLICY = ExitPolicy(lambda_low=-1, lambda_high=0.9, answer_on_low=True)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(betting, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(betting, "LEASE", 0.5)  # until the next process takes over


def certified(folder: Path, risk: str = "error") -> Path:
    certificate({0.1: POLICY}, risk=risk).save(folder / "certificate.json")
    return folder / "certificate.json"


def settings(folder: Path, **changes: Any) -> Settings:
    return Settings(state=folder, **{"shadow_share": 1, "audit_share": 0} | changes)


async def level(running: Running) -> dict[str, Any]:
    """The first level of `GET /monitoring`."""
    body = (await running.client.get("/monitoring")).json()
    found: dict[str, Any] = body["certificates"][0]["levels"][0]
    return found


async def until(running: Running, part: str = "shadow", **wanted: int) -> dict[str, Any]:
    """The shadow runs of the level, or another part, once they have these figures."""
    async with asyncio.timeout(PATIENCE):
        while True:
            body = (await running.client.get("/monitoring")).json()
            if body["certificates"]:
                found: dict[str, Any] = body["certificates"][0]["levels"][0][part]
                if all(found[name] == value for name, value in wanted.items()):
                    return found
            await asyncio.sleep(0.01)


async def test_the_full_budget_is_run_on_from_where_the_answer_stopped(tmp_path: Path) -> None:
    async with serving(
        EARLY, OTHER, certificates=[certified(tmp_path)], settings=settings(tmp_path)
    ) as running:
        given = (await running.solve(risk="error")).json()
        shadow = await until(running, questions=1)
        engine = running.engine
    assert (given["answer"], given["exit"], given["guarantee"]["risk"]) == ("7", "high", "error")
    assert engine.policies == [POLICY, FULL_BUDGET]
    before, after = engine.drawings
    assert before.budget.thinking == after.budget.thinking == BUDGET
    assert engine.thoughts == [0, INTERVAL]  # the exit was at the first checkpoint
    assert (before.priority, after.priority) == (0, full_budget.PRIORITY)
    assert (shadow["disagree"], shadow["agree"], shadow["drawn"]) == (1, 0, 1)


async def test_agreement_is_counted_and_bounds_the_regret(tmp_path: Path) -> None:
    async with serving(
        EARLY, SAME, certificates=[certified(tmp_path)], settings=settings(tmp_path)
    ) as running:
        for number in range(20):
            await running.solve(problem=f"Dial {number}?", risk="error")
            await until(running, agree=number + 1)
        shadow = await until(running, questions=20)
    assert (shadow["agree"], shadow["disagree"], shadow["above"]) == (20, 0, False)
    assert shadow["disagreement"] == 0
    assert 0 <= shadow["low"] == 0 < shadow["high"] < 1


async def test_a_run_leaves_the_engine_while_callers_wait(tmp_path: Path) -> None:
    """It stops at the next tokens, goes on from there once nobody waits, and loses no token."""
    busy: list[bool] = []
    async with serving(
        EARLY, OTHER, certificates=[certified(tmp_path)], settings=settings(tmp_path)
    ) as running:
        own, engine = running.context.shadows, running.engine
        assert own is not None
        thought = lambda: len(engine.policies)  # noqa: E731
        own._is_busy = lambda: thought() == 2 and not busy and not busy.append(True)
        given = (await running.solve(risk="error")).json()
        shadow = await until(running, questions=1)
    assert given["answer"] == "7"
    assert engine.thoughts == [0, INTERVAL, 2 * INTERVAL]
    assert engine.aborted == 1
    assert shadow["drawn"] == 1


async def test_without_a_place_a_run_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is made when the question is asked, so its answer cannot have a part in it."""
    monkeypatch.setattr(runs, "MOST_HELD", 0)
    async with serving(
        EARLY,
        EARLY,
        OTHER,
        certificates=[certified(tmp_path)],
        settings=settings(tmp_path, shadow_runs=1),
    ) as running:
        held = running.context.shadows
        assert held is not None
        with held.question("chatcmpl-another"):  # holds the only place
            await running.solve(risk="error")
        await running.solve(problem="And this dial?", risk="error")
        shadow = await until(running, questions=1, dropped=1, disagree=1)
    assert shadow["drawn"] == 2


async def test_places_are_free_again_after_answers_that_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_HELD", 0)
    async with serving(
        EARLY,
        EARLY,
        OTHER,
        certificates=[certified(tmp_path)],
        settings=settings(tmp_path, shadow_runs=1),  # the only place
    ) as running:
        await running.solve(risk="error", temperature=0.1)  # no guarantee
        await running.solve(risk="error", seed=13)  # refused
        await running.solve(problem="And this dial?", risk="error")
        shadow = await until(running, questions=1)
        assert len(running.engine.policies) == 3
    assert (shadow["drawn"], shadow["dropped"], shadow["disagree"]) == (1, 0, 1)


async def test_a_run_that_takes_too_long_is_missing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shadows, "SHADOW_DEADLINE", 0.05)  # how long a run may take
    stays = Script(confidences=(0.2,), ends_at=None, stays=True)
    async with serving(
        EARLY, stays, certificates=[certified(tmp_path)], settings=settings(tmp_path)
    ) as running:
        id_ = (await running.solve(risk="error")).json()["id"]
        await until(running, missing=1)
    assert f"the shadow run of {id_} gave no result: it took over 0.05 s" in caplog.text


async def test_a_run_that_the_stop_ends_is_missing_and_counts_as_agreeing(tmp_path: Path) -> None:
    stays = Script(confidences=(0.2,), ends_at=None, stays=True)
    kept = settings(tmp_path, database=f"sqlite:///{tmp_path}/one.db")
    certificates = [certified(tmp_path)]
    async with serving(EARLY, stays, certificates=certificates, settings=kept) as running:
        await running.solve(risk="error")
        await until(running, waiting=1)
    async with serving(EARLY, certificates=certificates, settings=kept) as running:
        shadow = await until(running, questions=1)
    assert (shadow["missing"], shadow["waiting"], shadow["disagree"]) == (1, 0, 0)
    assert (shadow["low"], shadow["log_wealth"] < 0.01) == (0, True)


async def test_regret_is_tested_where_the_full_budget_gives_another_answer(tmp_path: Path) -> None:
    """Nothing is lost where they agree; elsewhere a reference tells which of both is right."""
    kept = settings(tmp_path, audit_share=1, audit_texts=True)
    scripts = EARLY, SAME, EARLY, OTHER, EARLY, OTHER, EARLY, OTHER
    async with serving(
        *scripts, certificates=[certified(tmp_path, "regret")], settings=kept
    ) as running:
        ids = []
        for number in range(4):
            asked = await running.solve(problem=f"Dial {number}?", risk="regret")
            ids.append(asked.json()["id"])
            await until(running, agree=1, disagree=number)
        assert (await level(running))["test"]["answers"] == 1  # the next one waits for its label
        labels = [
            {"id": ids[1], "reference": "8"},
            {"id": ids[2], "reference": "7"},
            {"id": ids[3], "right": False, "full_budget_right": False},
        ]
        sent = await running.client.post("/feedback", json={"answers": labels})
        assert sent.json()["labelled"] == 3
        test = await until(running, "test", labels=4)
        listed = (await running.client.get("/answers")).json()["answers"]
    assert {one["id"]: one["tested"] for one in listed} == {id_: id_ != ids[0] for id_ in ids}
    assert test["risk"] == pytest.approx(1 / 4)  # the second alone


async def test_the_test_waits_for_what_a_label_leaves_open(tmp_path: Path) -> None:
    """A wrong answer is no loss unless the full budget's is right: a later label may say so."""
    kept = settings(tmp_path, audit_share=1)
    certificates = [certified(tmp_path, "regret")]
    async with serving(EARLY, OTHER, EARLY, SAME, certificates=certificates, settings=kept) as one:
        id_ = (await one.solve(problem="Dial 1?", risk="regret")).json()["id"]
        await until(one, disagree=1)
        await one.solve(problem="Dial 2?", risk="regret")
        await until(one, agree=1)
        wrong = {"id": id_, "right": False}
        await one.client.post("/feedback", json={"answers": [wrong]})
        await asyncio.sleep(0.5)  # ten looks of the test
        assert (await level(one))["test"]["answers"] == 0, "neither skipped nor overtaken"
        later = {"answers": [wrong | {"full_budget_right": True}]}
        said = (await one.client.post("/feedback", json=later)).json()
        test = await until(one, "test", answers=2, labels=2)
    assert (said["corrected"], said["unchanged"]) == (1, 0)
    assert test["risk"] == 0.5


@pytest.mark.parametrize("texts", [True, False])
async def test_what_waits_for_a_label_is_listed_with_the_answer_of_the_full_budget(
    tmp_path: Path, texts: bool
) -> None:
    kept = settings(tmp_path, audit_share=1, audit_texts=texts)
    certificates = [certified(tmp_path, "regret")]
    async with serving(EARLY, OTHER, EARLY, SAME, certificates=certificates, settings=kept) as one:
        await one.solve(problem="Dial 1?", risk="regret")
        await until(one, disagree=1)
        await one.solve(problem="Dial 2?", risk="regret")
        await until(one, agree=1)
        await one.solve(problem="Dial 3?", temperature=0.3, risk="regret")  # has no shadow run
        listed = (await one.client.get("/audit")).json()["answers"]
    answers = [(each["answer"], each["full_budget_answer"]) for each in listed]
    none = (None, None)
    assert answers == ([("7", "8"), ("7", "7"), ("7", None)] if texts else [none, none, none])
    assert [each["full_budget_differs"] for each in listed] == [True, False, None]


@pytest.mark.parametrize("texts", [True, False])
async def test_regret_of_an_answer_that_could_not_be_read_is_tested(
    tmp_path: Path, texts: bool
) -> None:
    """The early exit had nothing to read, and the full budget an answer: the label is of that."""
    kept = settings(tmp_path, audit_share=1, audit_texts=texts)
    nothing = Script(confidences=(0.95,), forced="I do not know")
    certificates = [certified(tmp_path, "regret")]
    async with serving(nothing, OTHER, certificates=certificates, settings=kept) as running:
        given = (await running.solve(risk="regret")).json()
        await until(running, disagree=1)
        waiting = (await running.client.get("/audit")).json()
        counted = await until(running, "labels", waiting=1)
        assert (await level(running))["test"]["labels"] == 0

        async def send(**label: object) -> dict[str, Any]:
            body = {"answers": [{"id": given["id"], **label}]}
            said: dict[str, Any] = (await running.client.post("/feedback", json=body)).json()
            return said

        refused = await send(right=False)
        said = await send(**({"reference": "8"} if texts else {"full_budget_right": True}))
        test = await until(running, "test", labels=1)
        left = (await running.client.get("/audit")).json()["waiting"]
        (listed,) = (await running.client.get("/answers")).json()["answers"]
    assert (listed["outcome"], listed["tested"]) == ("abstained", True)
    assert (given["answer"], given["abstained"], given["audit"]) == (None, True, True)
    (one,) = waiting["answers"]
    assert (waiting["waiting"], one["abstained"], one["full_budget_differs"]) == (1, True, True)
    assert counted["audited"] == 0
    needed = "a reference is taken" if texts else "whether the full budget's answer is right"
    assert needed in refused["refused"][0]["why"]
    assert (said["labelled"], said["audited"], said["refused"], left) == (1, 1, [], 0)
    assert test["risk"] == 1


async def test_the_state_is_the_same_to_the_last_bit_after_a_restart(tmp_path: Path) -> None:
    kept = settings(tmp_path, database=f"sqlite:///{tmp_path}/one.db")
    certificates = [certified(tmp_path)]
    async with serving(EARLY, OTHER, certificates=certificates, settings=kept) as running:
        for number in range(3):
            await running.solve(problem=f"Dial {number}?", risk="error")
        before = await until(running, questions=3)
    async with serving(EARLY, OTHER, certificates=certificates, settings=kept) as running:
        assert await until(running, questions=3) == before
        await running.solve(problem="Dial 3?", risk="error")
        after = await until(running, questions=4)
    assert after["disagree"] == 4
