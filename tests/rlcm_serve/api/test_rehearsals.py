"""A certificate that is judged on live answers: the whole app around a scripted engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from calibration import ExitPolicy
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import PATIENCE, Running, serving
from tests.rlcm_serve.scripted_engine import Script, certificate

pytestmark = pytest.mark.anyio
SURE = ExitPolicy(lambda_low=0.1, patience=16, lambda_high=0.9, lambda_answer=0.4)
CANDIDATE = certificate({0.1: SURE})
STOPS_EARLY = Script(confidences=(0.95, 0.95), ends_at=32, own=r"It is \boxed{7}.", forced="8}")
NEVER_SURE = Script(confidences=(0.5, 0.5), ends_at=32, c_end=0.6, own=r"It is \boxed{7}.")
DECLINES = Script(confidences=(0.05, 0.5), ends_at=32, own=r"It is \boxed{7}.")


def settings(folder: Path, **changes: Any) -> Settings:
    CANDIDATE.save(folder / "candidate.json")
    kept = {"database": f"sqlite:///{folder}/one.db", "audit_share": 1}
    return Settings(state=folder, **kept | {"rehearse": str(folder / "candidate.json")} | changes)


async def rehearsed(running: Running, **wanted: int) -> dict[str, Any]:
    """The rehearsal's only level, once its figures are about so many."""
    path = f"/certificates/{CANDIDATE.id}/rehearsal"
    async with asyncio.timeout(PATIENCE):
        while True:
            response = await running.client.get(path)
            levels = response.json()["levels"]
            if levels and all(levels[0][name]["of"] == n for name, n in wanted.items()):
                found: dict[str, Any] = levels[0]
                return found
            await asyncio.sleep(0.01)


async def until_running(running: Running) -> None:
    rehearsals = running.context.rehearsals
    assert rehearsals is not None
    async with asyncio.timeout(PATIENCE):
        while not rehearsals.running:  # it follows the database  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def said(caplog: pytest.LogCaptureFixture, part: str) -> str:
    """The first message of the log with this in it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for message in caplog.messages:
                if part in message:
                    return message
            await asyncio.sleep(0.01)


async def ask(running: Running, number: int) -> str:
    asked = await running.solve(problem=f"Dial {number}?", on_infeasible="full_budget")
    said = asked.json()
    assert (said["answer"], said["guarantee"], said["exit"]) == ("7", None, "natural")
    return str(said["id"])


async def test_a_certificate_is_judged_while_the_full_budget_answers(tmp_path: Path) -> None:
    """Of three answers it gives one otherwise, one as it is, and declines one."""
    scripts = STOPS_EARLY, NEVER_SURE, DECLINES
    async with serving(*scripts, settings=settings(tmp_path)) as running:
        await until_running(running)
        ids = [await ask(running, number) for number in range(3)]
        labels = [{"id": one, "right": True} for one in ids]
        await running.client.post("/feedback", json={"answers": labels})
        level = await rehearsed(running, saved=3, lost=3)
        path = f"/certificates/{CANDIDATE.id}/activate"
        dry = (await running.client.post(path, params={"dry_run": True})).json()
        before = (await running.solve(problem="Dial 4?")).json()["guarantee"]
        done = (await running.client.post(path)).json()
        after = (await running.solve(problem="Dial 5?")).json()["guarantee"]
    assert (level["questions"], level["undecided"]) == (3, 0)
    assert level["saved"]["value"] == pytest.approx(1 - (16 + 32 + 16) / 96)
    assert level["answered"]["value"] == pytest.approx(2 / 3)
    assert level["lost"]["value"] == pytest.approx(2 / 3)
    assert (level["wrong"]["of"], level["wrong"]["value"]) == (2, 0.5)
    for name in ("saved", "answered", "lost", "wrong"):
        assert level[name]["low"] < level[name]["value"] < level[name]["high"]
    assert (dry["activated"], dry["active"], before) == (False, False, None)
    assert dry["rehearsal"]["levels"][0] == level
    assert (done["activated"], done["active"]) == (True, True)
    assert after is not None


async def test_only_stops_no_later_than_those_that_happened_are_judged(tmp_path: Path) -> None:
    """The active certificate stops at .8, which the rehearsed one would not have."""
    eager = ExitPolicy(lambda_low=-1, lambda_high=0.8)
    certificate({0.1: eager}, risk="error").save(tmp_path / "active.json")
    script = Script(confidences=(0.85,))
    async with serving(
        script, certificates=[tmp_path / "active.json"], settings=settings(tmp_path)
    ) as running:
        await until_running(running)
        await running.solve(risk="error")
        level = await rehearsed(running, saved=1)
    assert (level["undecided"], level["saved"]["value"]) == (1, 0)
    assert (level["answered"]["of"], level["lost"]["of"]) == (0, 0)


async def test_a_rehearsal_goes_on_after_a_restart_until_it_is_stopped(tmp_path: Path) -> None:
    kept = settings(tmp_path)
    path = f"/certificates/{CANDIDATE.id}/rehearsal"
    async with serving(STOPS_EARLY, settings=kept) as running:
        await until_running(running)
        await ask(running, 1)
        before = await rehearsed(running, saved=1)
    async with serving(STOPS_EARLY, settings=settings(tmp_path, rehearse=None)) as running:
        assert (await rehearsed(running, saved=1))["saved"] == before["saved"]
        await until_running(running)
        await ask(running, 2)
        await rehearsed(running, saved=2)
        stopped = (await running.client.delete(path)).json()
        await ask(running, 3)
        after = (await running.client.get(path)).json()
        again = await running.client.delete(path)
    assert (stopped["running"], after["running"], again.status_code) == (False, False, 404)
    assert after["levels"][0]["questions"] == 2


async def test_a_rehearsal_ends_when_its_certificate_is_activated(tmp_path: Path) -> None:
    """From then on the answers are its own, and would make it look better than it was."""
    rehearsal = f"/certificates/{CANDIDATE.id}/rehearsal"
    async with serving(STOPS_EARLY, settings=settings(tmp_path)) as running:
        await until_running(running)
        await ask(running, 1)
        before = await rehearsed(running, saved=1)
        done = await running.client.post(f"/certificates/{CANDIDATE.id}/activate")
        assert (await running.solve(problem="Dial 2?")).json()["guarantee"] is not None
        after = (await running.client.get(rehearsal)).json()
        refused = await running.client.post(rehearsal)
        assert (await running.client.delete(rehearsal)).status_code == 404
        await running.client.post(f"/certificates/{CANDIDATE.id}/deactivate")
        again = (await running.client.post(rehearsal)).json()
    assert (done.json()["rehearsal"]["running"], after["running"]) == (False, False)
    assert after["ended"] is not None
    assert after["levels"] == [before]
    assert refused.status_code == 409
    assert "is active" in refused.json()["detail"]
    assert (again["running"], again["levels"]) == (True, [before])


async def test_answers_of_a_certificate_that_is_active_are_no_rehearsal_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is served from a file and named for a rehearsal too, one after the other."""
    kept = settings(tmp_path)
    async with serving(STOPS_EARLY, settings=kept) as running:
        await until_running(running)
        await ask(running, 1)
    file = tmp_path / "candidate.json"
    async with serving(STOPS_EARLY, certificates=[file], settings=kept) as running:
        await until_running(running)
        assert (await running.solve(problem="Dial 2?")).json()["guarantee"] is not None
        await said(caplog, f"is not rehearsed: certificate {CANDIDATE.id} is active")
        rehearsal = await running.client.get(f"/certificates/{CANDIDATE.id}/rehearsal")
    assert [level["questions"] for level in rehearsal.json()["levels"]] == [1]


async def test_a_stored_certificate_is_rehearsed_on_demand(tmp_path: Path) -> None:
    async with serving(STOPS_EARLY, settings=settings(tmp_path, rehearse=None)) as running:
        path = f"/certificates/{CANDIDATE.id}/rehearsal"
        assert (await running.client.post(path)).status_code == 404
        await running.client.post("/certificates", json=CANDIDATE.to_json())
        assert (await running.client.get("/rehearsals")).json() == {"rehearsals": []}
        assert "never rehearsed" in (await running.client.get(path)).json()["detail"]
        assert (await running.client.post(path)).json()["running"] is True
        await ask(running, 1)
        assert (await rehearsed(running, saved=1))["questions"] == 1
        one = (await running.client.get(path)).json()
        assert (await running.client.get("/rehearsals")).json() == {"rehearsals": [one]}
