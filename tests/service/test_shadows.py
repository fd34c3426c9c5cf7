"""Shadow runs and a rehearsal of a real service, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibration import Certificate
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from tests.served import Served, serving
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

REHEARSED = EMBEDDED_MODEL / "certificates" / "error-1.json"
PATIENCE = 300.0
"""Seconds; this machine may be busy."""
PROBLEMS = sample_problems(Split.VALIDATION, 24, seed=11, levels=(2, 3))
"""All distinct: a rehearsal counts a question once."""
GUARDED, LABELLED = PROBLEMS[:12], PROBLEMS[12:]


def until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


def shadows(service: Served, risk: str) -> list[dict[str, Any]]:
    body = service.client.get("/monitoring").json()
    of_risk = [one for one in body["certificates"] if one["risk"] == risk]
    return [level["shadow"] for one in of_risk for level in one["levels"]]


def require_share(figure: dict[str, Any], *, may_agree: bool) -> None:
    """Tokens of questions that all save nothing have no interval: they say nothing of others."""
    if may_agree and figure["value"] == 0:
        assert figure["low"] is figure["high"] is None
    else:
        assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1


def test_the_full_budget_runs_behind_answers_and_a_certificate_is_rehearsed(
    tmp_path: Path,
) -> None:
    id_ = Certificate.load(REHEARSED).id
    with serving(tmp_path, "--shadow-share", "1", "--audit-share", "1") as service:
        path = f"/certificates/{id_}/rehearsal"
        assert service.client.post(path).status_code == 409, "it is active"
        service.client.post(f"/certificates/{id_}/deactivate").raise_for_status()
        service.client.post(path).raise_for_status()
        given = [service.solve(problem=p.question, risk="regret", alpha=0.2) for p in GUARDED]
        assert all(one.json()["guarantee"]["risk"] == "regret" for one in given)

        def ended() -> dict[str, Any] | None:
            found = [one for one in shadows(service, "regret") if one["drawn"] == len(GUARDED)]
            is_done = found and found[0]["agree"] + found[0]["disagree"] == len(GUARDED)
            return found[0] if is_done else None

        shadow = until(ended)
        assert (shadow["missing"], shadow["dropped"], shadow["waiting"]) == (0, 0, 0)
        assert 0 <= shadow["low"] <= shadow["disagree"] / len(GUARDED) <= shadow["high"] <= 1
        full = [
            service.solve(problem=p.question, risk="error", alpha=0.2, on_infeasible="full_budget")
            for p in LABELLED
        ]
        labels = [
            {"id": one.json()["id"], "reference": p.answer, "answer": one.json()["answer"]}
            for one, p in zip(full, LABELLED, strict=True)
            if one.json()["answer"] is not None
        ]
        sent = service.client.post("/feedback", json={"answers": labels}).json()
        assert (sent["labelled"], sent["refused"]) == (len(labels), [])

        def compared() -> list[dict[str, Any]] | None:
            levels: list[dict[str, Any]] = service.client.get(path).json()["levels"]
            is_done = all(one["lost"]["of"] and not one["missing"] for one in levels)
            return levels if levels and is_done else None

        for level in until(compared):
            assert level["questions"] == len(PROBLEMS)
            for name in ("saved", "answered", "lost", "wrong"):
                require_share(level[name], may_agree=name == "saved")
        dry = service.client.post(f"/certificates/{id_}/activate", params={"dry_run": True}).json()
        assert (dry["activated"], dry["rehearsal"]["running"]) == (False, True)
        done = service.client.post(f"/certificates/{id_}/activate").json()
        assert (done["activated"], done["rehearsal"]["running"]) == (True, False)
