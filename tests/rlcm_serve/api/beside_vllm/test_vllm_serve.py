"""`vllm serve` with our plugins, as users start it, over real HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rlcm_serve.engine.launch import ENVIRONMENT
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from studies.serving.beside_vllm import plugins_on_path, vllm_serve
from tests.served import free_port
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.slow

KEY = "vllms-own-key"
QUESTION, OTHER, STREAMED = (one.question for one in sample_problems(Split.TEST, 3, seed=0))
LONGEST_START = 400.0  # seconds


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("beside-vllm")
    headers = {"Authorization": f"Bearer {KEY}"}
    with (
        vllm_serve(folder, ["--api-key", KEY]) as url,
        httpx.Client(base_url=url, headers=headers, timeout=120) as client,
    ):
        yield client


def test_questions_are_answered_under_a_certificate(client: httpx.Client) -> None:
    response = client.post("/solve", json={"problem": QUESTION, "alpha": 0.2, "n": 4})
    assert response.status_code == 200, response.text
    solved = response.json()
    assert solved["guarantee"] is not None, solved
    assert len(solved["samples"]) == 4


def test_our_routes_demand_vllms_key(client: httpx.Client) -> None:
    for key in ("", "Bearer wrong", f"Basic {KEY}"):
        for path in ("/solve", "/certificates", "/aggregate", "/rlcm/metrics"):
            response = client.request("GET", path, headers={"Authorization": key})
            assert response.status_code == 401, (path, key)
    activate = client.post("/certificates/571b667eda0c/activate")
    assert activate.status_code == 403, "vLLM's key asks questions, and administers nothing"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_openais_interfaces_have_the_guarantee_where_a_request_names_a_risk(
    client: httpx.Client, path: str
) -> None:
    """Although vLLM's own routes of the same path were attached first."""
    (model,) = (found["id"] for found in client.get("/v1/models").json()["data"])

    def told(question: str) -> dict[str, Any]:
        asked: dict[str, Any] = {"input": question}
        if path.endswith("completions"):
            asked = {"messages": [{"role": "user", "content": question}]}
        return {"model": model, **asked}

    plain = client.post(path, json=told(QUESTION))
    assert plain.status_code == 200, plain.text
    assert "rlcm" not in plain.json()
    ours = client.post(path, json=told(OTHER) | {"alpha": 0.2})
    assert ours.status_code == 200, ours.text
    assert ours.json()["rlcm"]["guarantee"] is not None
    streamed = client.post(path, json=told(STREAMED) | {"alpha": 0.2, "stream": True})
    assert '"statement"' in streamed.text


def test_the_rest_of_the_service_is_there_or_says_where_it_is(client: httpx.Client) -> None:
    kept = client.get("/certificates").json()["certificates"]
    assert any(one["active"] for one in kept)
    rollouts = '{"problem_id": "a", "answer": "7", "confidence": 0.9}\n' * 2
    voted = client.post(
        "/aggregate", content=rollouts, headers={"Content-Type": "application/x-ndjson"}
    )
    assert voted.status_code == 200, voted.text
    for path in ("/calibrations", "/overview", "/page/index.html"):
        missing = client.get(path)
        assert missing.status_code == 404
        assert "use `rlcm serve`" in missing.json()["detail"]
    assert "vllm:" in client.get("/metrics").text
    assert "rlcm_queue_running" in client.get("/rlcm/metrics").text


def test_without_our_arguments_vllm_does_not_start_and_says_which_it_needs(
    tmp_path: Path,
) -> None:
    command = ["serve", str(EMBEDDED_MODEL), "--host", "127.0.0.1", "--enforce-eager"]
    done = subprocess.run(
        [Path(sys.executable).with_name("vllm"), *command, "--port", str(free_port())],
        env={**os.environ, **ENVIRONMENT, **plugins_on_path(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LONGEST_START,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "vLLM runs without exit control" in said
    assert "--logits-processors rlcm_serve" in said
    assert f"vllm serve {EMBEDDED_MODEL} $(rlcm vllm-args {EMBEDDED_MODEL})" in said


def test_a_server_that_others_can_reach_does_not_start_without_a_key(tmp_path: Path) -> None:
    with (
        pytest.raises(SystemExit, match=r"others can reach the host '0\.0\.0\.0'"),
        vllm_serve(tmp_path, ["--host", "0.0.0.0"]),
    ):
        pass
