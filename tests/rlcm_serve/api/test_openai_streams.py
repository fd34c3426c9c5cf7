import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from calibration import ExitPolicy
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.openai_client import ASKED, chunks_of, client_of, joined, on_a_port
from tests.rlcm_serve.api.serving import Running, serving
from tests.rlcm_serve.scripted_engine import Script, certificate

STREAM: dict[str, Any] = ASKED | {"stream": True}
SURE, UNSURE = Script(c_end=0.6), Script(c_end=0.3)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    certificate({0.1: ExitPolicy(lambda_high=0.9, lambda_answer=0.4)}).save(tmp_path / "one.json")
    return tmp_path / "one.json"


async def test_the_chunks_add_up_to_the_completion(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(**ASKED)
    options = {"include_usage": True}
    chunks = await chunks_of(await client.chat.completions.create(**STREAM, stream_options=options))
    message = whole.choices[0].message
    assert joined(chunks, "role") == "assistant"
    assert joined(chunks, "content") == message.content
    assert joined(chunks, "refusal") is None
    for name in ("reasoning", "reasoning_content"):
        assert joined(chunks, name) == (message.model_extra or {})[name]
    *body, last, usage = chunks
    assert [chunk.choices[0].finish_reason for chunk in body] == [None] * len(body)
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason
    ours = (whole.model_extra or {})["rlcm"]
    assert (last.model_extra or {})["rlcm"] == ours | {"id": last.id}
    assert (usage.choices, usage.usage) == ([], whole.usage)
    assert {chunk.id for chunk in chunks} == {last.id} != {whole.id}
    assert {(chunk.object, chunk.model) for chunk in chunks} == {
        ("chat.completion.chunk", "scripted")
    }


async def test_the_order_is_role_thinking_answer_end(client: AsyncOpenAI) -> None:
    chunks = await chunks_of(await client.chat.completions.create(**STREAM))
    deltas = [chunk.choices[0].delta.model_dump(exclude_unset=True) for chunk in chunks]
    thinking = {"reasoning": "hm", "reasoning_content": "hm"}
    answer = [{"content": "It"}, {"content": " is"}, {"content": r" \boxed{7}."}]
    assert deltas == [{"role": "assistant"}, *[thinking] * 3, *answer, {}]


async def test_on_the_wire_it_is_one_line_of_data_each_and_done(ready: Running) -> None:
    response = await ready.client.post("/v1/chat/completions", json=STREAM)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, rest = response.text.split("\n\n")
    assert rest == ""
    assert events.pop() == "data: [DONE]"
    for event in events:
        chunk = json.loads(event.removeprefix("data: "))
        assert "usage" not in chunk
        assert ("rlcm" in chunk) == (chunk["choices"][0]["finish_reason"] is not None)
    options = {"stream_options": {"include_usage": True}}
    response = await ready.client.post("/v1/chat/completions", json=STREAM | options)
    *events, usage, _, _ = response.text.split("\n\n")
    assert all('"usage":null' in event for event in events)
    assert json.loads(usage.removeprefix("data: "))["usage"]["total_tokens"] > 0


async def test_the_clients_own_accumulator_takes_it(client: AsyncOpenAI) -> None:
    async with client.chat.completions.stream(**ASKED) as stream:
        contents = [event.content async for event in stream if event.type == "content.done"]
        completion = await stream.get_final_completion()
    assert contents == [r"It is \boxed{7}."]
    assert completion.choices[0].message.content == r"It is \boxed{7}."
    assert completion.choices[0].finish_reason == "stop"


async def test_an_answer_that_is_cut_to_nothing_is_no_abstention(ready: Running) -> None:
    async with client_of(ready.app) as client:
        chunks = await chunks_of(await client.chat.completions.create(**STREAM, stop=["It"]))
    assert joined(chunks, "content") == ""
    assert joined(chunks, "refusal") is None


async def test_an_abstention_streams_as_a_refusal(one: Path) -> None:
    async with serving(UNSURE, certificates=[one]) as running, client_of(running.app) as client:
        chunks = await chunks_of(await client.chat.completions.create(**STREAM))
        async with client.chat.completions.stream(**ASKED) as stream:
            completion = await stream.get_final_completion()
    assert joined(chunks, "content") is None
    assert joined(chunks, "reasoning") == "hmhmhm"
    refusal = joined(chunks, "refusal")
    assert refusal is not None
    assert refusal.startswith("The service abstained")
    assert completion.choices[0].message.refusal == refusal
    assert completion.choices[0].message.content is None


async def test_an_answer_that_may_not_be_given_is_not_streamed(one: Path) -> None:
    async with serving(UNSURE, certificates=[one]) as running:
        response = await running.client.post("/v1/chat/completions", json=STREAM)
    assert "boxed" not in response.text.split('"rlcm"')[0]


async def test_a_stream_has_the_guarantee_in_its_header_and_its_chunks(ready: Running) -> None:
    response = await ready.client.post("/v1/chat/completions", json=STREAM)
    said = response.headers["x-rlcm-guarantee"]
    first = json.loads(response.text.split("\n\n")[0].removeprefix("data: "))
    assert said.endswith(f"certificate={first['system_fingerprint']}")


async def test_of_several_samples_only_the_winner_is_heard(one: Path) -> None:
    long = Script(c_end=0.9, ends_at=60)
    extra = {"n_votes": 2}
    async with (
        serving(UNSURE, long, certificates=[one]) as running,
        client_of(running.app) as client,
    ):
        chunks = await chunks_of(await client.chat.completions.create(**STREAM, extra_body=extra))
        assert joined(chunks, "reasoning") == "hm" * 4
        assert len(chunks) == 4
        assert joined(chunks, "content") == r"It is \boxed{7}."
    async with serving(UNSURE, certificates=[one]) as running, client_of(running.app) as client:
        chunks = await chunks_of(await client.chat.completions.create(**STREAM, extra_body=extra))
        assert joined(chunks, "reasoning") is None
        assert joined(chunks, "refusal") is not None


async def test_a_failure_after_the_start_raises_in_the_client(
    ready: Running, client: AsyncOpenAI
) -> None:
    ready.engine.hold(2)
    stream = asyncio.create_task(ready.client.post("/v1/chat/completions", json=STREAM))
    asked = asyncio.create_task(client.chat.completions.create(**STREAM))
    await ready.engine.all_held.wait()
    ready.engine.kill()
    response = await stream
    assert response.status_code == 200
    *_, last, rest = response.text.split("\n\n")
    assert rest == ""
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_dead"
    with pytest.raises(openai.APIError, match="died"):
        await chunks_of(await asked)


async def test_what_is_refused_is_refused_before_the_stream(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.ConflictError):
        await client.chat.completions.create(**STREAM, extra_body={"alpha": 0.07})
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(
            **STREAM | {"messages": [{"role": "user", "content": "word " * 101}]}
        )
    assert caught.value.param == "messages"


async def test_thinking_streams_while_the_sample_thinks(ready: Running) -> None:
    ready.engine.hold(1)
    async with (
        on_a_port(ready.app) as url,
        AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client,
        await client.chat.completions.create(**STREAM) as stream,
    ):
        chunks = [await anext(stream) for _ in range(2)]
        assert joined(chunks, "reasoning") == "hm"
        assert ready.engine.thinking == 1  # and does not get on before this:
        ready.engine.killed.set()
        rest = [chunk async for chunk in stream]
    assert joined(rest, "reasoning") == "hmhm"
    assert joined(rest, "content") == r"It is \boxed{7}."


async def test_a_client_that_leaves_the_stream_ends_the_work(ready: Running) -> None:
    ready.engine.hold(1)
    async with on_a_port(ready.app) as url, asyncio.timeout(5):
        client = AsyncOpenAI(base_url=url, api_key="unused", max_retries=0)
        async with client, await client.chat.completions.create(**STREAM) as stream:
            await anext(stream)
            await ready.engine.all_held.wait()
        await ready.context.admission.idle()
    assert (ready.engine.thinking, ready.engine.aborted) == (0, 1)


async def test_silence_is_filled_with_comments(one: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, heartbeat_s=0.05)
    async with serving(SURE, certificates=[one], settings=settings) as running:
        running.engine.hold(1)
        async with (
            on_a_port(running.app) as url,
            httpx.AsyncClient(base_url=url, timeout=5) as client,
            client.stream("POST", "/chat/completions", json=STREAM) as response,
        ):
            lines = response.aiter_lines()
            async for line in lines:
                if line.startswith(":"):
                    running.engine.killed.set()
                    break
            assert "data: [DONE]" in [line async for line in lines]
