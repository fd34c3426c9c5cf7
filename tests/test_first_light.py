"""The service as its users meet it: `rlcm serve` on a port, curl's questions, vLLM, signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.guarantees import find_certificates

QUESTION = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
SECONDS_TO_READY = 240  # 40 on an idle machine; this one may be busy


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[bytes]
    client: httpx.Client
    seconds_to_health: float

    def solve(self, **body: object) -> httpx.Response:
        return self.client.post("/solve", json={"problem": QUESTION, "alpha": 0.1} | body)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`rlcm serve` with the embedded model, once it is ready, in a directory with traps in it."""
    folder = tmp_path_factory.mktemp("somewhere")
    for name in ("training", "calibration"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("rlcm"), "serve", "--port", str(port)]
    process = subprocess.Popen([*command, "--engine-log", "engine.log"], cwd=folder)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    began = time.monotonic()
    try:
        wait_for(client, "/health", 20)
        seconds_to_health = time.monotonic() - began
        wait_for(client, "/readyz", SECONDS_TO_READY)
        yield Served(process, client, seconds_to_health)
    finally:
        process.kill()
        process.wait()
        client.close()


def wait_for(client: httpx.Client, path: str, seconds: float) -> None:
    """Until the path answers 200."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if client.get(path).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{path} did not answer 200 within {seconds} s")


def test_health_answers_long_before_the_engine_is_up(served: Served) -> None:
    assert served.seconds_to_health < 15


def test_a_question_is_answered_under_the_shipped_certificate(served: Served) -> None:
    replies = [served.solve(return_trace=True).json() for _ in range(4)]
    certificate, *_ = find_certificates(EMBEDDED_MODEL)
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
    _, certificate, _ = find_certificates(EMBEDDED_MODEL)
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


def test_a_killed_service_leaves_no_engine_behind(served: Served) -> None:
    family = served.family()
    assert any("EngineCore" in process.name() for process in family)
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
