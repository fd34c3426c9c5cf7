import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from calibration import ExitPolicy
from rlcm_serve.api import create_app
from rlcm_serve.errors import EngineDead
from rlcm_serve.guarantees import fingerprint_of
from rlcm_serve.service import Service
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, ScriptedEngine, certificate

ONE = certificate({0.05: None, 0.1: ExitPolicy(lambda_high=0.9), 0.2: ExitPolicy(lambda_high=0.8)})
BODY = {"problem": "A dial shows 3. A up 5.", "alpha": 0.1}


class Running:
    """An app with its service and a client, and what its start failed with."""

    def __init__(self, engine: ScriptedEngine, certificates: list[Path]) -> None:
        self.engine = engine
        self.stages: list[str] = []
        self.failures: list[BaseException] = []
        self.settled = asyncio.Event()
        self.service = Service(engine, certificates, self._on_stage)
        self.app = create_app(self.service, self.failures.append)
        self.client = client_of(self.app)

    def _on_stage(self, stage: str) -> None:
        self.stages.append(stage)
        if stage.startswith(("ready", "failed")):
            self.settled.set()

    async def until_settled(self) -> None:
        """Lets the engine start, and waits for what comes of it."""
        self.engine.started.set()
        async with asyncio.timeout(5):
            await self.settled.wait()
            await asyncio.sleep(0)  # for the failure to be handed on

    async def solve(self, **changes: Any) -> httpx.Response:
        return await self.client.post("/solve", json=BODY | changes)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://service")


@asynccontextmanager
async def starting(
    *scripts: Script, certificates: list[Path] | None = None
) -> AsyncIterator[Running]:
    running = Running(ScriptedEngine(*scripts), certificates or [])
    async with running.app.router.lifespan_context(running.app), running.client:
        yield running


@pytest.fixture
def one(tmp_path: Path) -> Path:
    ONE.save(tmp_path / "one.json")
    return tmp_path / "one.json"


@pytest.fixture
async def ready(one: Path) -> AsyncIterator[Running]:
    async with starting(Script(c_end=0.6), certificates=[one]) as running:
        await running.until_settled()
        yield running


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["type"].startswith("urn:rlcm:problem:")
    return body


async def test_an_answer_comes_with_its_guarantee(ready: Running) -> None:
    response = await ready.solve()
    assert response.status_code == 200
    body = response.json()
    statement = body["guarantee"].pop("statement")
    assert "at most 10% wrong" in statement
    assert body == {
        "answer": "7",
        "abstained": False,
        "confidence": 0.6,
        "exit": "natural",
        "guarantee": {
            "risk": "selective",
            "alpha_requested": 0.1,
            "alpha_certified": 0.1,
            "delta": 0.1,
            "promise": "simultaneous",
            "certificate": ONE.id,
        },
        "no_guarantee_reason": None,
        "tally": {"7": pytest.approx(0.6)},
        "samples": [
            {
                "answer": "7",
                "exit": "natural",
                "confidence": 0.6,
                "reasoning_tokens": 40,
                "answer_tokens": 5,
                "discarded_tokens": 1,
                "trace": None,
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "reasoning_tokens": 40,
            "answer_tokens": 5,
            "discarded_tokens": 1,
            "total_tokens": 53,
        },
    }


async def test_a_departure_is_answered_with_the_reason_for_no_guarantee(ready: Running) -> None:
    body = (await ready.solve(n=3)).json()
    assert body["answer"] == "7"
    assert body["confidence"] == 1.0
    assert body["guarantee"] is None
    assert "n is 3, certified is 1" in body["no_guarantee_reason"]
    assert len(body["samples"]) == 3
    body = (await ready.solve(max_tokens=20)).json()
    assert "max_tokens is 20" in body["no_guarantee_reason"]
    assert body["usage"]["reasoning_tokens"] == 20


async def test_the_trace_is_returned_if_asked_for(ready: Running) -> None:
    (sample,) = (await ready.solve(return_trace=True)).json()["samples"]
    assert sample["trace"] == {
        "reasoning": "hm",
        "own_answer": r"It is \boxed{7}.",
        "checkpoints": [
            {"tokens": 16, "confidence": 0.5, "is_final": False},
            {"tokens": 32, "confidence": 0.5, "is_final": False},
            {"tokens": 40, "confidence": 0.6, "is_final": True},
        ],
    }


async def test_a_broken_reading_is_null_on_the_wire() -> None:
    broken = Script(confidences=(float("nan"),), c_end=float("nan"))
    async with starting(broken) as running:
        await running.until_settled()
        body = (await running.solve(return_trace=True)).json()
    assert body["abstained"]
    assert body["samples"][0]["confidence"] is None


async def test_an_infeasible_alpha_is_409_with_what_would_do(ready: Running) -> None:
    body = problem_of(await ready.solve(alpha=0.07), 409)
    assert body["alpha"] == 0.07
    assert body["smallest_certifiable_alpha"] == 0.0432
    assert body["certified_alphas"] == [0.1, 0.2]
    assert "ask for alpha >= 0.1" in body["detail"]


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("problem", {"problem": ""}),
        ("problem", {"problem": "  "}),
        ("problem", {"problem": 7}),
        ("problem", {"problem": "word " * 101}),
        ("alpha", {"alpha": 0}),
        ("alpha", {"alpha": 1.0}),
        ("alpha", {"alpha": "0.1"}),
        ("alpha", {"alpha": None}),
        ("n", {"n": 0}),
        ("n", {"n": 65}),
        ("n", {"n": 1.5}),
        ("n", {"n": True}),
        ("max_tokens", {"max_tokens": 0}),
        ("vote", {"vote": "loudest"}),
        ("return_trace", {"return_trace": "yes"}),
        ("temperature", {"temperature": 0.1}),
    ],
)
async def test_bad_input_is_422_naming_the_field(
    ready: Running, field: str, changes: dict[str, Any]
) -> None:
    body = problem_of(await ready.solve(**changes), 422)
    assert [error["field"] for error in body["errors"]] == [field]
    assert len(body["detail"]) < 300


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
async def test_a_number_that_is_none_is_422(ready: Running, number: str) -> None:
    content = f'{{"problem": "What?", "alpha": {number}}}'
    headers = {"content-type": "application/json"}
    response = await ready.client.post("/solve", content=content, headers=headers)
    assert [error["field"] for error in problem_of(response, 422)["errors"]] == ["alpha"]


async def test_a_lone_surrogate_is_422(ready: Running) -> None:
    content = '{"problem": "What is \\ud800?", "alpha": 0.1}'
    headers = {"content-type": "application/json"}
    response = await ready.client.post("/solve", content=content, headers=headers)
    assert [error["field"] for error in problem_of(response, 422)["errors"]] == ["problem"]


async def test_a_missing_field_or_broken_json_is_422(ready: Running) -> None:
    response = await ready.client.post("/solve", json={"problem": "What?"})
    assert problem_of(response, 422)["detail"] == "alpha: Field required"
    headers = {"content-type": "application/json"}
    response = await ready.client.post("/solve", content='{"problem":', headers=headers)
    assert "JSON" in problem_of(response, 422)["detail"]


async def test_unknown_paths_and_methods_are_problems_too(ready: Running) -> None:
    problem_of(await ready.client.get("/nowhere"), 404)
    response = await ready.client.get("/solve")
    problem_of(response, 405)
    assert response.headers["allow"] == "POST"


async def test_before_it_is_ready_it_is_alive_and_says_so() -> None:
    async with starting() as running:
        await asyncio.sleep(0)
        assert (await running.client.get("/health")).status_code == 200
        assert (await running.client.get("/health")).content == b""
        response = await running.client.get("/readyz")
        assert problem_of(response, 503)["stage"] == "starting the engine"
        assert int(response.headers["retry-after"]) > 0
        problem_of(await running.solve(), 503)
        await running.until_settled()
        assert (await running.client.get("/readyz")).status_code == 200
        assert (await running.solve()).status_code == 200
    assert running.engine.stopped
    assert running.stages == [
        "starting the engine",
        "checking the certificates",
        "ready",
        "stopped",
    ]


async def test_stopping_during_the_start_ends_the_start() -> None:
    async with starting() as running:
        await asyncio.sleep(0)
    assert running.engine.stopped
    assert running.failures == []


async def test_a_start_that_fails_is_reported_and_handed_on() -> None:
    async with starting() as running:
        running.engine.dead = True
        await running.until_settled()
        problem_of(await running.client.get("/health"), 503)
        assert "failed to start" in problem_of(await running.client.get("/readyz"), 503)["stage"]
    assert [type(failure) for failure in running.failures] == [EngineDead]


async def test_a_certificate_of_another_engine_fails_the_start(tmp_path: Path) -> None:
    fitted_on = fingerprint_of(replace(IDENTITY, model="m1"))
    foreign = certificate({0.1: ExitPolicy()}, fingerprint=fitted_on)
    foreign.save(tmp_path / "foreign.json")
    async with starting(certificates=[tmp_path / "foreign.json"]) as running:
        await running.until_settled()
        stage = problem_of(await running.client.get("/readyz"), 503)["stage"]
    assert "model: 'm1' here, 'm0' there" in stage
    assert len(running.failures) == 1


async def test_a_dead_engine_is_503_everywhere(ready: Running) -> None:
    ready.engine.dead = True
    for response in (
        await ready.solve(),
        await ready.client.get("/health"),
        await ready.client.get("/readyz"),
    ):
        assert "restart" in problem_of(response, 503)["detail"]


async def test_a_mistake_of_the_service_is_500_without_its_inner_life(ready: Running) -> None:
    ready.engine.prompt = None  # type: ignore[assignment, method-assign]
    body = problem_of(await ready.solve(), 500)
    assert "NoneType" not in str(body)


async def test_the_description_is_complete_and_no_page_loads_from_elsewhere(ready: Running) -> None:
    description = (await ready.client.get("/openapi.json")).json()
    responses = description["paths"]["/solve"]["post"]["responses"]
    assert set(responses) == {"200", "409", "422", "503"}
    assert list(responses["422"]["content"]) == ["application/problem+json"]
    for page in ("/docs", "/redoc"):
        problem_of(await ready.client.get(page), 404)


@pytest.fixture
def server(one: Path) -> Iterator[tuple[str, ScriptedEngine]]:
    """The app on a real port, ready."""
    engine, ready = ScriptedEngine(), threading.Event()
    engine.started.set()
    service = Service(engine, [one], lambda stage: ready.set() if stage == "ready" else None)
    app = create_app(service, on_failure=lambda error: None)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(10)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", engine
    server.should_exit = True
    thread.join(10)
    listening.close()


def test_a_client_that_leaves_ends_the_work(server: tuple[str, ScriptedEngine]) -> None:
    url, engine = server
    with httpx.Client(base_url=url) as client:
        assert client.get("/health").status_code == 200
        assert client.post("/solve", json=BODY).json()["answer"] == "7"
        engine.hold(4)
        with pytest.raises(httpx.ReadTimeout):
            client.post("/solve", json=BODY | {"n": 4}, timeout=0.3)
    deadline = time.monotonic() + 5
    while engine.aborted < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (engine.thinking, engine.aborted) == (0, 4)
