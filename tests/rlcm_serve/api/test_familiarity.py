"""Unlike the calibration's: what a client of the service sees of an unfamiliar question."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from calibration import ExitPolicy
from rlcm_serve.api.wire.headers import HEADER
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.api.serving import PROBLEM, Running, starting
from tests.rlcm_serve.scripted_engine import GATED_IDENTITY, Script, certificate

UNFAMILIAR = "the question is unlike the calibration problems"


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    policy = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)
    made = certificate({0.1: policy}, fingerprint=fingerprint_of(GATED_IDENTITY))
    made.save(tmp_path / "gated.json")
    return tmp_path / "gated.json"


@asynccontextmanager
async def asked(certificate: Path, p_value: float) -> AsyncIterator[Running]:
    """The service with an engine in which every question has this familiarity."""
    async with starting(Script(c_end=0.6), certificates=[certificate]) as running:
        running.engine.reads_familiarity(p_value)
        await running.until_settled()
        yield running


async def stream(running: Running, **changes: Any) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Headers and contents of the events of a streamed answer."""
    body = {"problem": PROBLEM, "alpha": 0.1, "stream": True} | changes
    async with running.client.stream("POST", "/solve", json=body) as response:
        assert response.status_code == 200
        lines = [line async for line in response.aiter_lines()]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return dict(response.headers), [json.loads(one) for one in data]


async def test_a_familiar_question_has_its_familiarity_and_its_guarantee(gated: Path) -> None:
    async with asked(gated, 0.41) as running:
        response = await running.solve()
        headers, (start, *_, done) = await stream(running)
    body = response.json()
    assert (body["answer"], body["familiarity"]) == ("7", 0.41)
    assert body["guarantee"] == start["guarantee"] == done["guarantee"] is not None
    assert response.headers[HEADER] == headers[HEADER] != "none"


async def test_an_unfamiliar_question_has_a_guarantee_nowhere(gated: Path) -> None:
    async with asked(gated, 0.002) as running:
        response = await running.solve()
        headers, (start, *_, done) = await stream(running)
        chat = await running.client.post(
            "/v1/chat/completions",
            json={"model": "scripted", "messages": [{"role": "user", "content": PROBLEM}]},
        )
    for body in (response.json(), start, done):
        assert body["guarantee"] is None
        assert body["no_guarantee_reason"].startswith(UNFAMILIAR)
        assert body["no_guarantee_code"] == "unfamiliar"
    assert (done["answer"], done["familiarity"]) == ("7", 0.002)
    assert done["saved"] is None
    assert response.headers[HEADER] == headers[HEADER] == chat.headers[HEADER] == "none"
    assert chat.json()["rlcm"]["guarantee"] is None


async def test_an_unfamiliar_question_is_declined_on_request(gated: Path) -> None:
    async with asked(gated, 0.002) as running:
        body = (await running.solve(on_unfamiliar="abstain")).json()
        _, (start, *_, done) = await stream(running, on_unfamiliar="abstain")
        refused = await running.solve(on_unfamiliar="guess")
    for answered in (body, done):
        assert answered["abstained"]
        assert answered["answer"] is answered["exit"] is None
        assert [sample["exit"] for sample in answered["samples"]] == ["cancelled"]
        assert answered["usage"]["reasoning_tokens"] == 0
    assert start["no_guarantee_reason"].startswith(UNFAMILIAR)
    assert refused.status_code == 422


@pytest.mark.parametrize("stream", [False, True])
async def test_openais_clients_get_the_reason_as_a_refusal(gated: Path, stream: bool) -> None:
    body = {"model": "scripted", "on_unfamiliar": "abstain", "stream": stream}
    async with asked(gated, 0.002) as running:
        for path, question in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROBLEM}]}),
            ("/v1/responses", {"input": PROBLEM}),
        ):
            response = await running.client.post(path, json=body | question)
            assert response.status_code == 200
            assert '"refusal":"The service abstained: ' in response.text
            assert UNFAMILIAR in response.text
            assert "boxed" not in response.text
