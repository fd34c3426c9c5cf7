import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from calibration import ExitPolicy
from rlcm_serve.errors import EngineDead
from rlcm_serve.evidence.records import time_in
from rlcm_serve.settings import Settings
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.api.serving import Running, error_of, serving, starting
from tests.rlcm_serve.scripted_engine import (
    IDENTITY,
    SUFFIX_TOKENS,
    UNLUCKY_SEED,
    Script,
    ScriptedEngine,
    certificate,
)

ONE = certificate({0.05: None, 0.1: ExitPolicy(lambda_high=0.9), 0.2: ExitPolicy(lambda_high=0.8)})
BODY = {"problem": "A dial shows 3. A up 5.", "alpha": 0.1}


@pytest.fixture
def one(tmp_path: Path) -> Path:
    ONE.save(tmp_path / "one.json")
    return tmp_path / "one.json"


async def test_an_answer_comes_with_its_guarantee(ready: Running) -> None:
    response = await ready.solve()
    assert response.status_code == 200
    body = response.json()
    assert time_in(body.pop("id")) == pytest.approx(time.time(), abs=60)
    statement = body["guarantee"].pop("statement")
    assert "at most 10% get a wrong answer on average" in statement
    assert body == {
        "answer": "7",
        "text": r"It is \boxed{7}.",
        "forced": False,
        "audit": False,
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
            "kind": None,
            "bounds": {},
            "next_questions": None,
            "n_problems": ONE.n_problems,
            "method": ONE.method,
            "covers": ONE.covers,
            "does_not_cover": list(ONE.does_not_cover),
            "verified": "none",
        },
        "no_guarantee_reason": None,
        "no_guarantee_code": None,
        "profile": "default",
        "familiarity": None,
        "tally": {"7": pytest.approx(0.6)},
        "samples": [
            {
                "answer": "7",
                "exit": "natural",
                "confidence": 0.6,
                "reasoning_tokens": 40,
                "answer_tokens": 5,
                "suffix_tokens": 0,
                "discarded_tokens": 1,
                "trace": None,
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "cached_prompt_tokens": 0,
            "reasoning_tokens": 40,
            "answer_tokens": 5,
            "suffix_tokens": 0,
            "discarded_tokens": 1,
            "cancelled_tokens": 0,
            "total_tokens": 53,
        },
        "saved": {"full_budget_tokens": 400.0, "tokens": 354.0, "by_cancelling_tokens": 0.0},
    }


async def test_usage_counts_everything(one: Path) -> None:
    sure = Script(confidences=(0.95,), forced="7}")
    async with serving(sure, sure, sure, Script(stays=True), certificates=[one]) as running:
        body = (await running.solve(n=4, vote="majority")).json()
    usage = body["usage"]
    assert [sample["exit"] for sample in body["samples"]] == ["high"] * 3 + ["cancelled"]
    assert usage == {
        "prompt_tokens": 7,
        "cached_prompt_tokens": 0,
        "reasoning_tokens": 3 * 16,
        "answer_tokens": 3 * 3,
        "suffix_tokens": 3 * SUFFIX_TOKENS,
        "discarded_tokens": 3,
        "cancelled_tokens": 16,
        "total_tokens": 7 + 48 + 9 + 3 * SUFFIX_TOKENS + 3 + 16,
    }
    assert body["saved"] is None, "n = 4 is not certified, so nothing says what it costs"


async def test_cancelling_can_be_turned_off_for_all(one: Path) -> None:
    settings = Settings(cancel_decided=False, timeout_s=0.2)
    scripts = [Script(confidences=(0.95,))] * 3 + [Script(stays=True)]
    async with serving(*scripts, certificates=[one], settings=settings) as running:
        error_of(await running.solve(n=4, vote="majority"), 504)


async def test_a_conversation_is_answered_without_a_guarantee(ready: Running) -> None:
    problem = {"role": "user", "content": BODY["problem"]}
    alone = (await ready.client.post("/solve", json={"messages": [problem], "alpha": 0.1})).json()
    assert alone["guarantee"] is not None
    told = [{"role": "system", "content": "Be brief."}, problem]
    body = (await ready.client.post("/solve", json={"messages": told, "alpha": 0.1})).json()
    assert body["answer"] == "7"
    assert body["guarantee"] is None
    assert "system prompt" in body["no_guarantee_reason"]
    assert body["usage"]["prompt_tokens"] == 9


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{"role": "user", "content": "What?"}]},
        {"problem": None},
        {"problem": None, "messages": []},
        {"problem": None, "messages": [{"role": "assistant", "content": "Hm."}]},
        {"problem": None, "messages": [{"role": "tool", "content": "Hm."}]},
        {"stream_tokens": True},
    ],
)
async def test_what_is_asked_must_be_clear(ready: Running, changes: dict[str, Any]) -> None:
    error_of(await ready.solve(**changes), 422)


@pytest.mark.parametrize(
    ("then", "answer", "policy_said"),
    [("full_budget", "7", "answered at the full budget"), ("abstain", None, "not answered")],
)
async def test_what_to_do_at_an_infeasible_alpha(
    ready: Running, then: str, answer: str | None, policy_said: str
) -> None:
    body = (await ready.solve(alpha=0.07, on_infeasible=then)).json()
    assert body["answer"] == answer
    assert body["guarantee"] is None
    assert policy_said in body["no_guarantee_reason"]
    assert body["no_guarantee_code"] == "infeasible"
    assert body["exit"] == ("natural" if answer else None)
    assert len(body["samples"]) == (1 if answer else 0)


async def test_a_sampling_the_engine_cannot_honour_is_422(ready: Running) -> None:
    body = error_of(await ready.solve(seed=UNLUCKY_SEED), 422)
    assert body["errors"][0]["field"] == "seed"
    assert (
        "certificates assume unseeded sampling"
        in (await ready.solve(seed=7)).json()["no_guarantee_reason"]
    )


async def test_out_of_time_is_504_and_nothing_is_left_running(one: Path) -> None:
    async with serving(Script(stays=True), certificates=[one]) as running:
        body = error_of(await running.solve(timeout_s=0.5), 504)
        assert "0.5 s" in body["detail"]
        assert (running.engine.thinking, running.engine.aborted) == (0, 1)


async def test_only_json_is_taken(ready: Running) -> None:
    for content_type in ({"content-type": "text/plain"}, {}):
        response = await ready.client.post("/solve", content=json.dumps(BODY), headers=content_type)
        assert "application/json" in error_of(response, 415)["detail"]


async def events_of(running: Running, **changes: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream, comments left out."""
    body = BODY | {"stream": True} | changes
    events = []
    async with running.client.stream("POST", "/solve", json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in response.aiter_lines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                name = rest
            elif kind == "data":
                events.append((name, json.loads(rest)))
    return events


async def test_a_stream_tells_the_story_and_ends_with_the_response(ready: Running) -> None:
    plain = (await ready.solve()).json()
    events = await events_of(ready)
    names = [name for name, _ in events]
    assert names == ["start", *["checkpoint"] * 3, "exit", "sample", "vote", "done"]
    start, *readings, exit_, sample, vote, done = [body for _, body in events]
    assert start["policy"]["lambda_high"] == 0.9
    assert start["guarantee"] == plain["guarantee"]
    assert [reading["tokens"] for reading in readings] == [16, 32, 40]
    assert exit_ == {"sample": 0, "exit": "natural", "tokens": 40, "confidence": 0.6}
    assert sample == {"sample": 0, **plain["samples"][0]}
    assert vote["decided"] is True
    assert vote["leader"] == "7"
    assert done == plain | {"id": start["id"]}
    assert start["id"] != plain["id"]


async def test_a_stream_sends_tokens_if_asked_to(ready: Running) -> None:
    events = await events_of(ready, stream_tokens=True)
    spoken = [body for name, body in events if name == "token"]
    assert [body["text"] for body in spoken[:3]] == ["hm"] * 3
    assert sum(body["tokens"] for body in spoken[:3]) == 40
    assert [body["is_answer"] for body in spoken] == [False] * 3 + [True] * 3
    assert "".join(body["text"] for body in spoken[3:]) == r"It is \boxed{7}."


async def test_unicodes_line_ends_in_a_text_end_no_line(one: Path) -> None:
    own = "It is\u2028so\u2029and\x85so \\boxed{7}."
    async with serving(Script(c_end=0.6, own=own), certificates=[one]) as running:
        events = await events_of(running, stream_tokens=True)
    assert events[-1][1]["text"] == own
    said = [body["text"] for name, body in events if name == "token" and body["is_answer"]]
    assert "".join(said) == own


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"alpah": 0.1}, "alpah: unknown field: did you mean alpha?"),
        ({"max_token": 5}, "max_token: unknown field: did you mean max_tokens?"),
        ({"colour": 5}, "colour: unknown field: leave it out"),
        ({"stop": "a"}, "stop: unknown field: leave it out"),
        (
            {"problem": None, "messages": [{"role": "user", "content": "7", "contnet": "8"}]},
            "messages[0].contnet: unknown field: did you mean content?",
        ),
        ({"problem": None, "question": "7"}, "question: unknown field: did you mean problem?"),
    ],
)
async def test_a_misspelt_field_gets_a_suggestion(
    ready: Running, fields: dict[str, Any], detail: str
) -> None:
    assert error_of(await ready.solve(**fields), 422)["detail"] == detail


async def test_what_is_refused_is_refused_before_the_stream(ready: Running) -> None:
    error_of(await ready.solve(stream=True, alpha=0.07), 409)
    error_of(await ready.solve(stream=True, problem="word " * 101), 422)


async def test_a_stream_that_fails_ends_with_an_error(one: Path) -> None:
    async with serving(Script(), certificates=[one]) as running:
        running.engine.hold(2)
        *_, (name, problem) = await events_of(running, timeout_s=0.5)
        assert (name, problem["status"]) == ("error", 504)
        assert problem["type"] == "urn:rlcm:problem:out-of-time"
        running.engine.hold(1)
        streaming = asyncio.create_task(events_of(running))
        await asyncio.wait_for(running.engine.all_held.wait(), 5)
        running.engine.kill()
        *_, (name, problem) = await streaming
        assert (name, problem["status"]) == ("error", 503)


async def test_a_quiet_stream_sends_heartbeats(one: Path) -> None:
    settings = Settings(heartbeat_s=0.05)
    async with serving(Script(stays=True), certificates=[one], settings=settings) as running:
        body = BODY | {"stream": True, "timeout_s": 2}
        async with running.client.stream("POST", "/solve", json=body) as response:
            lines = [line async for line in response.aiter_lines()]
    assert sum(line.startswith(": ping") for line in lines) >= 3


async def test_a_departure_is_answered_with_the_reason_for_no_guarantee(ready: Running) -> None:
    body = (await ready.solve(n=3)).json()
    assert body["answer"] == "7"
    assert body["confidence"] == 1.0
    assert body["guarantee"] is None
    assert "n is 3, the certified value is 1" in body["no_guarantee_reason"]
    assert body["no_guarantee_code"] == "not_covered"
    assert len(body["samples"]) == 3
    body = (await ready.solve(max_tokens=20)).json()
    assert "max_tokens is 20" in body["no_guarantee_reason"]
    assert body["usage"]["reasoning_tokens"] == 20


async def test_the_trace_is_returned_if_asked_for(ready: Running) -> None:
    (sample,) = (await ready.solve(return_trace=True)).json()["samples"]
    assert sample["trace"] == {
        "reasoning": "hmhmhm",
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
    body = error_of(await ready.solve(alpha=0.07), 409)
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
        ("temperature", {"temperature": 2.1}),
        ("top_p", {"top_p": 0}),
        ("seed", {"seed": -1}),
        ("timeout_s", {"timeout_s": 0}),
        ("timeout_s", {"timeout_s": 1e6}),
        ("risk", {"risk": "regrets"}),
        ("on_infeasible", {"on_infeasible": "hope"}),
        ("temprature", {"temprature": 0.1}),
    ],
)
async def test_bad_input_is_422_naming_the_field(
    ready: Running, field: str, changes: dict[str, Any]
) -> None:
    body = error_of(await ready.solve(**changes), 422)
    assert [error["field"] for error in body["errors"]] == [field]
    assert len(body["detail"]) < 300


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
async def test_a_number_that_is_none_is_422(ready: Running, number: str) -> None:
    content = f'{{"problem": "What?", "alpha": {number}}}'
    headers = {"content-type": "application/json"}
    response = await ready.client.post("/solve", content=content, headers=headers)
    assert [error["field"] for error in error_of(response, 422)["errors"]] == ["alpha"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ('"problem": "What is \\ud800?"', "problem"),
        ('"messages": [{"role": "user", "content": "\\ud800"}]', "messages[0].content"),
    ],
)
async def test_a_lone_surrogate_is_422(ready: Running, asked: str, field: str) -> None:
    headers = {"content-type": "application/json"}
    content = f'{{{asked}, "alpha": 0.1}}'
    response = await ready.client.post("/solve", content=content, headers=headers)
    assert [error["field"] for error in error_of(response, 422)["errors"]] == [field]


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"alpha": 10}, "alpha is 10: give less than 1"),
        ({"alpha": "much"}, "alpha is 'much': give a number"),
        ({"n": 1.5}, "n is 1.5: give a whole number"),
        ({"stream": "maybe"}, "stream is 'maybe': give true or false"),
        ({"problem": ""}, "problem is '': give 1 or more characters"),
        ({"problem": None, "messages": []}, "messages is []: give 1 or more entries"),
        (
            {"problem": None, "messages": [{"role": "user"}]},
            "messages[0].content: required, but missing",
        ),
        ({"response_format": "json"}, "response_format is 'json': give a JSON object"),
        ({"vote": "best"}, "vote is 'best': give 'confidence' or 'majority'"),
    ],
)
async def test_a_wrong_value_is_named_with_its_place_and_a_remedy(
    ready: Running, fields: dict[str, Any], detail: str
) -> None:
    found = error_of(await ready.solve(**fields), 422)["detail"]
    assert found.startswith(detail)
    assert ";" not in found, "one error each"


async def test_a_missing_field_or_broken_json_is_422(ready: Running) -> None:
    response = await ready.client.post("/solve", json={"problem": "What?"})
    assert error_of(response, 422)["detail"] == "alpha: required, but missing"
    headers = {"content-type": "application/json"}
    response = await ready.client.post("/solve", content='{"problem":', headers=headers)
    assert "JSON" in error_of(response, 422)["detail"]


async def test_unknown_paths_and_methods_get_an_error_response(ready: Running) -> None:
    unknown = error_of(await ready.client.get("/nowhere"), 404)
    assert unknown["detail"].startswith("there is no path '/nowhere' here: GET /openapi.json")
    response = await ready.client.get("/solve")
    assert error_of(response, 405)["detail"] == "/solve takes no GET: send POST"
    assert response.headers["allow"] == "POST"


async def test_before_it_is_ready_it_is_alive_and_says_so() -> None:
    async with starting() as running:
        await asyncio.sleep(0)
        assert (await running.client.get("/health")).status_code == 200
        assert (await running.client.get("/health")).content == b""
        response = await running.client.get("/readyz")
        assert error_of(response, 503)["stage"] == "starting the engine"
        assert int(response.headers["retry-after"]) > 0
        error_of(await running.solve(), 503)
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
        error_of(await running.client.get("/health"), 503)
        assert "failed to start" in error_of(await running.client.get("/readyz"), 503)["stage"]
    assert [type(failure) for failure in running.failures] == [EngineDead]


async def test_a_certificate_of_another_engine_fails_the_start(tmp_path: Path) -> None:
    fitted_on = fingerprint_of(replace(IDENTITY, model="m1"))
    foreign = certificate({0.1: ExitPolicy()}, fingerprint=fitted_on)
    foreign.save(tmp_path / "foreign.json")
    async with starting(certificates=[tmp_path / "foreign.json"]) as running:
        await running.until_settled()
        stage = error_of(await running.client.get("/readyz"), 503)["stage"]
    assert stage == "failed to start: the log says why", "anyone may read it"
    (failure,) = running.failures
    assert "model: 'm1' here, 'm0' there" in str(failure)


async def test_with_a_dead_engine_it_is_alive_but_not_ready(ready: Running) -> None:
    ready.engine.kill()
    assert "restart" in error_of(await ready.solve(), 503)["detail"]
    error_of(await ready.client.get("/readyz"), 503)
    assert (await ready.client.get("/health")).status_code == 200, "its engine may come back"


async def test_a_mistake_of_the_service_is_500_without_its_inner_life(ready: Running) -> None:
    ready.engine.prompt = None  # type: ignore[assignment, method-assign]
    body = error_of(await ready.solve(), 500)
    assert "NoneType" not in str(body)


async def test_the_description_is_complete_and_no_page_loads_from_elsewhere(ready: Running) -> None:
    description = (await ready.client.get("/openapi.json")).json()
    responses = description["paths"]["/solve"]["post"]["responses"]
    errors = (400, 401, 403, 408, 409, 413, 415, 421, 422, 429, 500, 503, 504)
    assert set(responses) == {"200", *map(str, errors)}
    assert list(responses["422"]["content"]) == ["application/problem+json"]
    for page in ("/docs", "/redoc"):
        error_of(await ready.client.get(page), 404)


@pytest.fixture
def server(one: Path, tmp_path: Path) -> Iterator[tuple[str, ScriptedEngine]]:
    """The app on a real port, ready."""
    running = Running(ScriptedEngine(), tmp_path, [one], Settings(state=tmp_path))
    running.engine.started.set()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(running.app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    deadline = time.monotonic() + 10
    while httpx.get(f"{url}/readyz").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    yield url, running.engine
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_the_work(
    server: tuple[str, ScriptedEngine], stream: bool
) -> None:
    url, engine = server
    with httpx.Client(base_url=url) as client:
        assert client.post("/solve", json=BODY).json()["answer"] == "7"
        engine.hold(4)
        with pytest.raises(httpx.ReadTimeout):
            client.post("/solve", json=BODY | {"n": 4, "stream": stream}, timeout=0.3)
    deadline = time.monotonic() + 5
    while engine.aborted < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (engine.thinking, engine.aborted) == (0, 4)
