"""The main job, as users meet it: `rlcm serve` on a port, questions, streams, votes, kills.

Of the tests that need a real engine, `make test` runs these; all of them share one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import psutil
import pytest

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.solving.guarantees import CERTIFICATE_FOLDER
from tests.served import QUESTION, Served, serving, set_traps, wait_for
from tests.service.clients import ask

AT_ONCE = 2.0
"""Seconds within which a client hears of the engine's death."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The one service of these tests, in a folder with traps in it; the last test kills it."""
    folder = tmp_path_factory.mktemp("main-job")
    set_traps(folder)
    with serving(folder) as running:
        yield running


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
        assert guarantee["statement"].startswith(
            "Of the questions that this policy answers, at most "
        )
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
    assert "n is 3, the certified values are 1, 4 and 8" in voted["no_guarantee_reason"]
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


def test_a_stream_tells_of_the_samples_the_vote_and_the_answer(served: Served) -> None:
    told = list(served.stream(n=4))
    names = [name for name, _ in told]
    assert names[0] == "start"
    assert names[-1] == "done"
    assert {"checkpoint", "exit", "sample", "vote"} <= {*names}
    answered = told[-1][1]
    assert answered["guarantee"]["alpha_certified"] <= 0.1
    votes = [data for name, data in told if name == "vote"]
    assert votes[-1]["tally"] == answered["tally"]
    if answered["answer"] is not None:
        assert votes[-1]["leader"] == answered["answer"]


def test_a_question_that_is_cut_by_time_is_no_abstention_under_the_guarantee(
    served: Served,
) -> None:
    cut = []
    for number, seconds in enumerate((0.02, 0.05, 0.1, 0.2, 0.4)):
        problem = f"{QUESTION[:-2]} {number}?"
        response = served.solve(problem=problem, n=4, timeout_s=seconds)
        if response.status_code == 504 and "no_guarantee_reason" in response.json():
            cut.append(problem)
            assert response.json()["guarantee"] is None
            assert (
                "it is not an abstention of the certified" in response.json()["no_guarantee_reason"]
            )
    assert cut


def test_the_certificate_of_an_answer_is_active_and_listed(served: Served) -> None:
    named = served.solve().json()["guarantee"]["certificate"]
    listed = served.client.get("/certificates").json()["certificates"]
    assert [entry["active"] for entry in listed if entry["id"] == named] == [True]


def test_the_engine_is_killed_and_comes_back(served: Served, threads: ThreadPoolExecutor) -> None:
    clients, asking = ask(threads, served, plain=4, streamed=4)
    core = served.engine_core()
    restarts = served.metric("rlcm_engine_restarts_total")

    os.kill(core.pid, signal.SIGKILL)
    killed = time.monotonic()
    wait(asking, timeout=30)

    assert [future.exception() for future in asking] == [None] * 8
    assert max(client.ended for client in clients) - killed < AT_ONCE
    for client in clients:
        assert client.problem["type"] == "urn:rlcm:problem:engine-dead"
        assert client.problem["status"] == 503
    plain, streamed = clients[:4], clients[4:]
    assert [client.status for client in plain] == [503] * 4
    assert all(int(client.headers["retry-after"]) > 0 for client in plain)
    assert [client.names[-1] for client in streamed] == ["error"] * 4
    assert not any("done" in client.names for client in streamed)

    wait_for(served.client, "/readyz", AT_ONCE, status=503)
    refused = served.solve()
    assert refused.status_code == 503
    assert refused.headers["content-type"] == "application/problem+json"
    while served.client.get("/readyz").status_code != 200:
        assert served.client.get("/health").status_code == 200, "it is alive: it restarts"
        assert time.monotonic() - killed < 240, "the engine does not come back"
        time.sleep(0.1)

    answered = served.solve()
    assert answered.status_code == 200
    assert answered.json()["guarantee"] is not None
    assert served.metric("rlcm_engine_restarts_total") == restarts + 1
    assert served.engine_core().pid != core.pid
    assert served.metric("rlcm_engine_requests") == 0


def test_a_killed_service_leaves_no_engine_behind(served: Served) -> None:
    family = served.family()
    assert any("EngineCore" in process.name() for process in family)
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
