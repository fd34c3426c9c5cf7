"""The service as its users meet it: `rlcm serve` on a port, curl's questions, vLLM, signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from tests.served import Served, serving


def test_health_answers_long_before_the_engine_is_up(served: Served) -> None:
    assert served.seconds_to_health < served.seconds_to_ready / 2


def test_a_question_is_answered_under_the_shipped_certificate(served: Served) -> None:
    replies = [served.solve(return_trace=True).json() for _ in range(4)]
    certificate = EMBEDDED_MODEL / CERTIFICATE_FOLDER / "selective-1.json"
    for reply in replies:
        guarantee = reply["guarantee"]
        assert reply["no_guarantee_reason"] is None
        assert guarantee["alpha_certified"] <= guarantee["alpha_requested"] == 0.1
        assert guarantee["certificate"] in certificate.read_text()
        assert guarantee["statement"].startswith("Among the questions it answers")
        assert reply["usage"]["reasoning_tokens"] == reply["samples"][0]["reasoning_tokens"]
    answers = [reply["answer"] for reply in replies]
    assert answers.count("8") >= 2, "an easy question, answered right nearly always"
    early = [r for r in replies if r["exit"] == "high"]
    for reply in early:
        checkpoints = reply["samples"][0]["trace"]["checkpoints"]
        assert reply["samples"][0]["reasoning_tokens"] == checkpoints[-1]["tokens"]
        assert checkpoints[-1]["tokens"] % 32 == 0
    assert early, "the probe stopped at least one of them"


def test_several_samples_have_a_certificate_of_their_own(served: Served) -> None:
    voted = served.solve(n=4).json()
    certificate = EMBEDDED_MODEL / CERTIFICATE_FOLDER / "selective-4.json"
    assert voted["guarantee"]["certificate"] in certificate.read_text()
    assert len(voted["samples"]) == 4


def test_another_procedure_is_answered_without_a_guarantee(served: Served) -> None:
    voted = served.solve(n=3).json()
    assert voted["guarantee"] is None
    assert "n is 3, certified is 1" in voted["no_guarantee_reason"]
    assert len(voted["samples"]) == 3
    shorter = served.solve(max_tokens=64).json()
    assert shorter["guarantee"] is None
    assert "max_tokens" in shorter["no_guarantee_reason"]
    assert shorter["usage"]["reasoning_tokens"] <= 64


def test_an_infeasible_alpha_names_the_smallest_that_could_be(served: Served) -> None:
    response = served.solve(alpha=0.001)
    assert response.status_code == 409
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert 0.001 < problem["smallest_certifiable_alpha"] < 0.2
    assert all(alpha > 0.001 for alpha in problem["certified_alphas"])


def test_bad_input_names_the_field(served: Served) -> None:
    response = served.solve(alpha=1.5)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "alpha"


def test_a_killed_service_leaves_no_engine_behind(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        family = served.family()
        assert any("EngineCore" in process.name() for process in family)
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
