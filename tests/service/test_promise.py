"""A promise that breaks: seen in labels, withdrawn, and given again after a fresh calibration."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.served import RLCM, Served, serving
from tests.service.clients import until
from training.tasks.problems import Problem, Split, sample_problems

pytestmark = pytest.mark.slow

PATIENCE = 300  # 2 on an idle machine
AUDITED = ("--audit-share", "1", "--audit-texts")
USUAL = sample_problems(Split.TEST, 60, seed=3, families=("dial",), levels=(1, 2))
HARD = sample_problems(Split.TEST, 160, seed=3, families=("dial",), levels=(6,))
"""A fifth of these are answered wrong at alpha .05: most calibration problems are easier."""
FRESH = sample_problems(Split.CALIBRATION, 100, seed=3, families=("dial",), levels=(1, 2))


def ask(served: Served, problems: Iterable[Problem], alpha: float = 0.05) -> list[dict[str, Any]]:
    """The responses in the order of the problems."""

    async def ask_all() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=32)
        async with httpx.AsyncClient(
            base_url=served.url, timeout=PATIENCE, limits=limits
        ) as client:
            bodies = [{"problem": problem.question, "alpha": alpha} for problem in problems]
            return await asyncio.gather(*(client.post("/solve", json=body) for body in bodies))

    responses = asyncio.run(ask_all())
    assert {response.status_code for response in responses} == {200}
    return [response.json() for response in responses]


def run_rlcm(served: Served, *command: str | Path) -> str:
    done = subprocess.run(
        [RLCM, *command, "--service", served.url], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send_labels(
    served: Served, file: Path, problems: Sequence[Problem], answers: Sequence[dict[str, Any]]
) -> None:
    """References for all that were answered, as an operator's script would write them."""
    rows = [
        {"id": answer["id"], "reference": problem.answer}
        for problem, answer in zip(problems, answers, strict=True)
        if answer["answer"] is not None
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    run_rlcm(served, "feedback", file)


def shown(served: Served, certificate: str) -> dict[str, Any] | None:
    """The certificate as `/monitoring` shows it; None before its first answer is counted."""
    body = served.client.get("/monitoring").json()
    return next((one for one in body["certificates"] if one["id"] == certificate), None)


def risk_test(found: dict[str, Any] | None) -> dict[str, Any]:
    """The test of the level at alpha .05."""
    levels = [] if found is None else found["levels"]
    tests = [one["test"] for one in levels if one["alpha"] == 0.05 and one["test"] is not None]
    return tests[0] if tests else {"labels": 0, "alarmed": False}


def unfinished(served: Served, job: str) -> dict[str, Any]:
    """The calibration job, which must not have failed; it may take as long as it takes."""
    found: dict[str, Any] = served.client.get(job).json()
    assert found["state"] in ("queued", "recording", "fitting", "done"), found
    return found


def test_a_broken_promise_is_withdrawn_and_comes_back_with_a_fresh_certificate(
    tmp_path: Path,
) -> None:
    labels = tmp_path / "labels.jsonl"
    with serving(tmp_path, *AUDITED) as served:
        usual = ask(served, USUAL)
        certificate = usual[0]["guarantee"]["certificate"]
        assert all(answer["audit"] for answer in usual if answer["answer"] is not None)
        send_labels(served, labels, USUAL, usual)

        answered = sum(answer["answer"] is not None for answer in usual)
        until(lambda: risk_test(shown(served, certificate))["labels"] == answered, PATIENCE)
        assert not risk_test(shown(served, certificate))["alarmed"]

        hard = ask(served, HARD)
        assert sum(answer["guarantee"] is not None for answer in hard) > 120
        send_labels(served, labels, HARD[:20], hard[:20])  # the service is killed at its end

    with serving(tmp_path, *AUDITED) as served:
        send_labels(served, labels, HARD, hard)  # twenty of them again
        until(lambda: risk_test(shown(served, certificate))["alarmed"], PATIENCE)
        found = shown(served, certificate)
        assert found is not None
        assert found["guarantee"] == "withdrawn"
        assert answered < risk_test(found)["labels"] <= answered + len(HARD), "none counts twice"
        until(lambda: ask(served, USUAL[:1])[0]["guarantee"] is None, PATIENCE)
        (withheld,) = ask(served, USUAL[1:2])
        assert "risk alarm" in withheld["no_guarantee_reason"]

        data = tmp_path / "fresh.jsonl"
        fresh = [{"problem": each.question, "answer": each.answer} for each in FRESH]
        data.write_text("\n".join(map(json.dumps, fresh)))
        started = run_rlcm(
            served, "recalibrate", certificate, "--data", data, "--no-wait", "--json"
        )
        job = f"/calibrations/{json.loads(started)['id']}"
        while not unfinished(served, job)["done"]:
            time.sleep(0.5)  # then it is killed

    with serving(tmp_path, *AUDITED) as served:
        while unfinished(served, job)["state"] != "done":
            time.sleep(0.5)
        (given,) = ask(served, USUAL[2:3], alpha=0.2)
        assert given["guarantee"]["certificate"] != certificate
        assert given["guarantee"]["delta"] == pytest.approx(0.05)
