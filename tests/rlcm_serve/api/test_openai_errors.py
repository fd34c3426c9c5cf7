"""Every failure comes in OpenAI's envelope, and as the exception that its client has for it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from calibration import ExitPolicy
from rlcm_serve.settings import Settings
from rlcm_serve.store.caller import Limits, Scope
from tests.rlcm_serve.api.openai_client import ASKED, client_of
from tests.rlcm_serve.api.serving import Running, serving, starting
from tests.rlcm_serve.scripted_engine import certificate

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


@pytest.fixture
def one(tmp_path: Path) -> Path:
    certificate({0.1: ExitPolicy(), 0.2: ExitPolicy()}).save(tmp_path / "one.json")
    return tmp_path / "one.json"


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error in a response's envelope."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code", "rlcm"}
    assert error["rlcm"]["status"] == status
    assert error["rlcm"]["type"].startswith("urn:rlcm:problem:")
    return error


async def failure_of(
    running: Running, kind: type[openai.APIStatusError], **options: Any
) -> openai.APIStatusError:
    """What the client raises when it asks."""
    async with client_of(running.app, **options) as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**ASKED)
    return caught.value


async def test_an_infeasible_alpha_is_a_conflict_that_is_not_asked_again(ready: Running) -> None:
    before = ready.context.metrics.page()[0].decode()
    async with client_of(ready.app, max_retries=5) as client:
        with pytest.raises(openai.ConflictError, match=r"ask for alpha >= 0\.1") as caught:
            await client.chat.completions.create(**ASKED, extra_body={"alpha": 0.07})
    assert caught.value.code == "infeasible_alpha"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["rlcm"]["certified_alphas"] == [0.1, 0.2]
    assert caught.value.response.headers["x-should-retry"] == "false"
    asked = 'rlcm_http_requests_total{method="POST",route="/v1/chat/completions",status="409"} 1.0'
    after = ready.context.metrics.page()[0].decode()
    assert asked not in before
    assert asked in after


async def test_keys(one: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, auth="on")
    async with serving(certificates=[one], settings=settings) as running:
        wrong = await failure_of(running, openai.AuthenticationError, api_key="rlcm_0_0")
        assert (wrong.code, wrong.type) == ("unauthenticated", "authentication_error")
        key, _ = running.context.keys.create("solver", [Scope.SOLVE], Limits(max_n=2))
        async with client_of(running.app, api_key=key) as client:
            completion = await client.chat.completions.create(**ASKED)
            assert completion.choices[0].message.content == r"It is \boxed{7}."
            with pytest.raises(openai.BadRequestError, match="this key allows at most 2") as caught:
                await client.chat.completions.create(**ASKED, extra_body={"n_votes": 3})
            assert caught.value.param == "n_votes"
        error_of(await running.client.get("/v1/models"), 401)


async def test_overload_says_when_to_come_back(one: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, max_running=1, max_waiting=0)
    async with (
        serving(certificates=[one], settings=settings) as running,
        client_of(running.app) as client,
    ):
        running.engine.hold(1)
        first = asyncio.create_task(client.chat.completions.create(**ASKED))
        await running.engine.all_held.wait()
        refused = await failure_of(running, openai.RateLimitError)
        assert int(refused.response.headers["retry-after"]) > 0
        assert (refused.code, refused.type) == ("overloaded", "rate_limit_error")
        running.engine.killed.set()
        assert (await first).choices[0].message.content == r"It is \boxed{7}."


async def test_before_it_is_ready(one: Path) -> None:
    async with starting(certificates=[one]) as running:
        await asyncio.sleep(0)
        early = await failure_of(running, openai.InternalServerError)
        assert (early.status_code, early.code) == (503, "not_ready")
        assert int(early.response.headers["retry-after"]) > 0
        assert "x-should-retry" not in early.response.headers  # the client may ask again
        error_of(await running.client.get("/v1/models"), 503)


async def test_a_dead_engine(ready: Running) -> None:
    ready.engine.hold(1)
    asked = asyncio.create_task(failure_of(ready, openai.InternalServerError))
    await ready.engine.all_held.wait()
    ready.engine.kill()
    dead = await asked
    assert (dead.status_code, dead.code, dead.type) == (503, "engine_dead", "server_error")


async def test_out_of_time(ready: Running) -> None:
    ready.engine.hold(1)
    async with client_of(ready.app, max_retries=5) as client:
        with pytest.raises(openai.InternalServerError, match="timeout_s") as caught:
            await client.chat.completions.create(**ASKED, extra_body={"timeout_s": 0.5})
    assert (caught.value.status_code, caught.value.code) == (504, "out_of_time")
    assert "max_tokens" not in caught.value.message, "each interface calls its fields otherwise"
    assert ready.engine.aborted == 1


async def test_a_mistake_of_the_service_tells_nothing_of_itself(ready: Running) -> None:
    ready.engine.prompt = None  # type: ignore[assignment, method-assign]
    mistake = await failure_of(ready, openai.InternalServerError)
    assert (mistake.status_code, mistake.code) == (500, "internal")
    assert "NoneType" not in str(mistake)


async def test_errors_of_the_framework_use_the_envelope(ready: Running) -> None:
    json_type = {"content-type": "application/json"}
    assert error_of(await ready.client.get("/v1/embeddings"), 404)["code"] == "not_found"
    async with client_of(ready.app) as client:
        with pytest.raises(openai.NotFoundError, match="use /v1/chat/completions"):
            await client.completions.create(model="scripted", prompt="A dial shows 3.")
    refused = await ready.client.get(CHAT)
    assert error_of(refused, 405)["code"] == "method_not_allowed"
    assert refused.headers["allow"] == "POST"
    error_of(await ready.client.post(CHAT, content="{}"), 415)
    broken = await ready.client.post(CHAT, content='{"model":', headers=json_type)
    assert "JSON" in error_of(broken, 400)["message"]
    missing = error_of(await ready.client.post(CHAT, json={"messages": []}), 400)
    assert missing["param"] == "model"
    large = await ready.client.post(CHAT, content=b" " * (2**20 + 1), headers=json_type)
    assert error_of(large, 413)["code"] == "body_too_large"


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        (CHAT, {"tool_resources": {}}, "tool_resources: unknown field: leave it out"),
        (CHAT, {"input": "7"}, "input: unknown field: did you mean messages?"),
        (CHAT, {"stop_token_ids": [1]}, "stop_token_ids: unknown field: leave it out"),
        (CHAT, {"max_token": 5}, "max_token: unknown field: did you mean max_tokens?"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "7", "tool_call_id": "a"}]},
            "messages[0].tool_call_id: unknown field: leave it out",
        ),
        (RESPONSES, {"stop": "a"}, "stop: unknown field: leave it out"),
        (RESPONSES, {"logprobs": True}, "logprobs: unknown field: leave it out"),
        (RESPONSES, {"reasoning_effort": "low"}, "reasoning_effort: unknown field: leave it out"),
        (RESPONSES, {"messages": []}, "messages: unknown field: did you mean input?"),
        (
            RESPONSES,
            {"max_tokens": 5},
            "max_tokens: unknown field: did you mean max_output_tokens?",
        ),
    ],
)
async def test_no_field_is_suggested_that_would_be_refused(
    ready: Running, path: str, fields: dict[str, Any], message: str
) -> None:
    asked = ASKED if path == CHAT else {"model": "scripted", "input": "7"}
    error = error_of(await ready.client.post(path, json=asked | fields), 400)
    assert error["message"] == message
