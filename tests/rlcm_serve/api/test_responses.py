"""`/v1/responses`, asked with the unmodified OpenAI client, and checked against its types."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from calibration import ExitPolicy
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.openai_client import client_of
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.scripted_engine import BUDGET, Script, certificate

ASKED: dict[str, Any] = {"model": "scripted", "input": PROBLEM}
STREAM = ASKED | {"stream": True}
SURE, UNSURE = Script(c_end=0.6), Script(c_end=0.3)
ENDLESS = Script(c_end=0.3, ends_at=None)
JSON = Script(c_end=0.6, continued={"": '{"value": 8}'})
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


class Dial(BaseModel):
    value: int


@pytest.fixture
def one(tmp_path: Path) -> Path:
    certificate({0.1: ExitPolicy(lambda_high=0.9, lambda_answer=0.4)}).save(tmp_path / "one.json")
    return tmp_path / "one.json"


async def respond(one: Path, *scripts: Script, **changes: Any) -> Response:
    """A response by samples that go as scripted."""
    async with serving(*scripts, certificates=[one]) as running, client_of(running.app) as client:
        response: Response = await client.responses.create(**ASKED | changes)
    return response


async def events_of(running: Running, **changes: Any) -> list[dict[str, Any]]:
    """The events of a stream, each of which is what the client expects to the letter."""
    sent = await running.client.post("/v1/responses", json=STREAM | changes)
    *frames, rest = sent.text.split("\n\n")
    assert rest == ""
    events = []
    for frame in frames:
        name, _, data = frame.partition("\ndata: ")
        event = json.loads(data)
        assert name == f"event: {event['type']}"
        EVENT.validate_python(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def rlcm_of(response: Response) -> dict[str, Any]:
    found: dict[str, Any] = (response.model_extra or {})["rlcm"]
    return found


def same(response: dict[str, Any]) -> dict[str, Any]:
    """A response without what differs between two answers: its ids and its time."""
    text = json.dumps(response | {"created_at": 0})
    plain: dict[str, Any] = json.loads(text.replace(response["id"].removeprefix("resp_"), ""))
    return plain


async def test_the_plain_client_gets_an_answer_with_a_guarantee(client: AsyncOpenAI) -> None:
    response = await client.responses.create(**ASKED)
    assert Response.model_validate(response.to_dict()) == response
    assert response.id.startswith("resp_")
    assert (response.status, response.model, response.error) == ("completed", "scripted", None)
    assert response.output_text == r"It is \boxed{7}."
    thinking, message = response.output
    assert (thinking.type, message.type) == ("reasoning", "message")
    assert thinking.content is not None
    assert thinking.content[0].text == "hmhmhm"
    rlcm = rlcm_of(response)
    assert (rlcm["id"], rlcm["answer"], rlcm["alpha_is_default"]) == (response.id, "7", True)
    assert "at most 10% get a wrong answer on average" in rlcm["guarantee"]["statement"]
    usage, counts = response.usage, rlcm["usage"]
    assert usage is not None
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens == counts["total_tokens"]
    assert usage.output_tokens_details.reasoning_tokens == counts["reasoning_tokens"] + 1
    assert usage.input_tokens_details.cached_tokens == 0


async def test_a_header_has_the_guarantee(ready: Running) -> None:
    for asked in (ASKED, STREAM):
        sent = await ready.client.post("/v1/responses", json=asked)
        assert sent.headers["x-rlcm-guarantee"].startswith("risk=selective; alpha=0.1; delta=0.1")
    sent = await ready.client.post("/v1/responses", json=ASKED | {"temperature": 0.1})
    assert sent.headers["x-rlcm-guarantee"] == "none"


async def test_the_events_come_in_openais_order(ready: Running) -> None:
    events = await events_of(ready)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["reasoning_text.delta"] * 3,
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * 3,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.parametrize(
    ("scripts", "changes"),
    [
        ([SURE], {}),
        ([UNSURE], {}),
        ([ENDLESS], {}),
        ([JSON], {"text": {"format": {"type": "json_object"}}}),
        ([SURE], {"n_votes": 2}),
        ([UNSURE], {"n_votes": 2}),
        ([SURE], {"alpha": 0.07, "on_infeasible": "abstain"}),
        ([Script(c_end=0.6, own=" It is seven. ")], {"return_trace": True}),
        ([SURE], {"metadata": {"run": "7"}, "instructions": "Be brief.", "temperature": 0.3}),
    ],
)
async def test_a_stream_adds_up_to_the_response(
    one: Path, scripts: list[Script], changes: dict[str, Any]
) -> None:
    async with serving(*scripts, certificates=[one]) as running:
        whole = (await running.client.post("/v1/responses", json=ASKED | changes)).json()
    async with serving(*scripts, certificates=[one]) as running:  # to which nothing is a repeat
        events = await events_of(running, **changes)
    Response.model_validate(whole)
    first, last = events[0]["response"], events[-1]["response"]
    assert same(last) == same(whole)
    assert (first["status"], first["output"], first["rlcm"]) == ("in_progress", [], None)
    ended = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert ended == last["output"]
    for index, item in enumerate(last["output"]):
        told = "".join(
            event["delta"]
            for event in events
            if "delta" in event and event["output_index"] == index
        )
        (part,) = item["content"]
        assert told == part.get("text", part.get("refusal"))


async def test_the_clients_own_accumulator_takes_it(client: AsyncOpenAI) -> None:
    async with client.responses.stream(**ASKED) as stream:
        told = [e.delta async for e in stream if e.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert "".join(told) == final.output_text == r"It is \boxed{7}."
    assert rlcm_of(final)["answer"] == "7"


async def test_a_schema_is_parsed_into_a_model(one: Path) -> None:
    async with serving(JSON, certificates=[one]) as running, client_of(running.app) as client:
        parsed = await client.responses.parse(**ASKED, text_format=Dial)
        async with client.responses.stream(**ASKED, text_format=Dial) as stream:
            streamed = await stream.get_final_response()
    for response in (parsed, streamed):
        assert response.output_parsed == Dial(value=8)
        assert (
            "response_format is not that of the profile" in rlcm_of(response)["no_guarantee_reason"]
        )


async def test_an_abstention_is_a_refusal_and_no_text(one: Path) -> None:
    async with serving(UNSURE, certificates=[one]) as running, client_of(running.app) as client:
        response = await client.responses.create(**ASKED)
        events = await events_of(running)
    (part,) = response.output[-1].to_dict()["content"]  # type: ignore[misc]
    assert part["type"] == "refusal"
    assert part["refusal"].startswith("The service abstained")
    assert response.output_text == ""
    assert response.status == "completed", "an abstention is part of what is certified"
    assert rlcm_of(response)["guarantee"] is not None
    assert "boxed" not in json.dumps(events[:-1])


async def test_out_of_tokens_without_an_answer_is_incomplete(one: Path) -> None:
    response = await respond(one, ENDLESS)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    async with serving(ENDLESS, certificates=[one]) as running:
        assert (await events_of(running))[-1]["type"] == "response.incomplete"


async def test_a_refusal_withdraws_a_text_without_an_answer(one: Path) -> None:
    script = Script(c_end=0.6, own="It is seven.", forced="7", complete=False)
    async with serving(script, certificates=[one]) as running:
        events = await events_of(running)
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert "output_text.delta" in kinds
    assert "output_text.done" not in kinds
    (part,) = events[-1]["response"]["output"][-1]["content"]
    assert part["type"] == "refusal"
    added = [event for event in events if event["type"] == "response.content_part.added"]
    assert [event["content_index"] for event in added] == [0, 0, 1]


async def test_a_failure_after_the_start_raises_in_the_client(
    ready: Running, client: AsyncOpenAI
) -> None:
    ready.engine.hold(1)
    asked = asyncio.create_task(client.responses.create(**STREAM))
    await ready.engine.all_held.wait()
    ready.engine.kill()
    with pytest.raises(openai.APIError, match="died") as caught:
        [event async for event in await asked]
    assert caught.value.code == "engine_dead"


async def test_instructions_and_items_are_a_conversation(
    ready: Running, client: AsyncOpenAI
) -> None:
    parts = [
        {"type": "input_text", "text": "A dial shows 3. "},
        {"type": "input_text", "text": "A up 5."},
    ]
    alone: dict[str, Any] = {"role": "user", "content": parts}
    assert rlcm_of(await client.responses.create(**ASKED | {"input": [alone]}))["guarantee"]
    brief = await client.responses.create(**ASKED, instructions="Be brief.")
    assert "system prompt" in rlcm_of(brief)["no_guarantee_reason"]
    developer = {"type": "message", "role": "developer", "content": "Be brief."}
    same_ = await client.responses.create(**ASKED | {"input": [developer, alone]})
    asked = [messages for _, messages in ready.engine.asked]
    assert asked[-1] == asked[-2]
    assert brief.usage == same_.usage


@pytest.mark.parametrize("script", [SURE, UNSURE])
async def test_an_output_can_be_sent_back_as_it_came(one: Path, script: Script) -> None:
    async with serving(script, certificates=[one]) as running, client_of(running.app) as client:
        first = await client.responses.create(**ASKED)
        question = {"role": "user", "content": PROBLEM}
        asked = [question, *first.output, question]
        second = await client.responses.create(**ASKED | {"input": asked})
    assert "several turns" in rlcm_of(second)["no_guarantee_reason"]
    (part,) = first.output[-1].to_dict()["content"]  # type: ignore[misc]
    words = (part.get("text") or part["refusal"]).split()
    assert rlcm_of(second)["usage"]["prompt_tokens"] == 7 + len(words) + 7


async def test_a_parsed_output_can_be_sent_back(one: Path) -> None:
    async with serving(JSON, certificates=[one]) as running, client_of(running.app) as client:
        first = await client.responses.parse(**ASKED, text_format=Dial)
        question = {"role": "user", "content": PROBLEM}
        asked = [question, *first.output, question]
        await client.responses.create(**ASKED | {"input": asked})
        # Version 2 of the client sends what it parsed along.
        message = first.output[-1].to_dict()
        message["content"][0]["parsed"] = {"value": 8}  # type: ignore[index]
        await client.responses.create(**ASKED | {"input": [question, message, question]})


async def test_instructions_may_be_a_profiles(one: Path) -> None:
    profiles = [Profile(name="tutor", system="You are a tutor.")]
    async with (
        serving(SURE, certificates=[one], profiles=profiles) as running,
        client_of(running.app) as client,
    ):
        by_prompt = await client.responses.create(**ASKED, instructions="You are a tutor.")
        by_name = await client.responses.create(**ASKED | {"model": "scripted:tutor"})
    assert rlcm_of(by_prompt)["profile"] == rlcm_of(by_name)["profile"] == "tutor"


async def test_settings_are_honoured(ready: Running, client: AsyncOpenAI) -> None:
    extra = {"seed": 5, "n_votes": 2, "vote": "majority", "alpha": 0.2}
    response = await client.responses.create(
        **ASKED, temperature=0.3, top_p=0.9, max_output_tokens=48, extra_body=extra
    )
    generation = ready.engine.drawings[-1]
    assert (generation.sampling.temperature, generation.sampling.top_p) == (0.3, 0.9)
    assert (generation.budget.thinking, response.max_output_tokens) == (48, 48)
    assert (rlcm_of(response)["alpha"], rlcm_of(response)["tally"]) == (0.2, {"7": 2})


@pytest.mark.parametrize(
    "harmless",
    [
        {"store": True, "metadata": {"run": "7"}, "user": "u", "service_tier": "auto"},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "top_logprobs": 0},
        {"background": False, "truncation": "disabled", "previous_response_id": None},
        {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}},
        {"text": {"format": {"type": "text"}, "verbosity": "medium"}, "max_output_tokens": BUDGET},
    ],
)
async def test_what_asks_for_nothing_changes_nothing(
    client: AsyncOpenAI, harmless: dict[str, Any]
) -> None:
    response = await client.responses.create(**ASKED | harmless)
    assert response.output_text == r"It is \boxed{7}."
    assert rlcm_of(response)["guarantee"] is not None
    assert response.to_dict()["store"] is False, "nothing is stored, and the response says so"


@pytest.mark.parametrize(
    ("param", "changes"),
    [
        ("background", {"background": True}),
        ("context_management", {"context_management": [{"type": "compaction"}]}),
        ("conversation", {"conversation": "conv_1"}),
        ("include", {"include": ["message.output_text.logprobs"]}),
        ("input", {"input": " "}),
        ("input", {"input": []}),
        ("input", {"input": 5}),
        ("input", {"input": "word " * 101}),
        ("input", {"input": [{"role": "assistant", "content": "Hello."}]}),
        ("input[0]", {"input": [{"type": "function_call", "name": "f"}]}),
        ("input[0].content", {"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": "data:,"}
        ]}]}),
        ("input[0].role", {"input": [{"role": "tool", "content": "7"}]}),
        ("max_output_tokens", {"max_output_tokens": 0}),
        ("max_output_tokens", {"max_output_tokens": 10**400}),
        ("max_tokens", {"extra_body": {"max_tokens": 5}}),
        ("max_tool_calls", {"max_tool_calls": 1}),
        ("n_votes", {"extra_body": {"n_votes": 65}}),
        ("previous_response_id", {"previous_response_id": "resp_1"}),
        ("prompt", {"prompt": {"id": "p"}}),
        ("reasoning.effort", {"reasoning": {"effort": "low"}}),
        ("response_format", {"extra_body": {"response_format": {"type": "text"}}}),
        ("seed", {"extra_body": {"seed": 13}}),
        ("stream_options.include_obfuscation", {
            "stream": True, "stream_options": {"include_obfuscation": True}
        }),
        ("temperature", {"temperature": 2.5}),
        ("text.format", {"text": {"format": {
            "type": "json_schema", "name": "x", "schema": {"enum": ["7" * 20000]}
        }}}),
        ("text.verbosity", {"text": {"verbosity": "low"}}),
        ("tool_choice", {"tool_choice": "required"}),
        ("tools", {"tools": [{"type": "web_search"}]}),
        ("top_logprobs", {"top_logprobs": 3}),
        ("truncation", {"truncation": "auto"}),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_is_refused_naming_the_field(
    ready: Running, client: AsyncOpenAI, param: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(**ASKED | changes)
    assert caught.value.param == param
    assert caught.value.code == "invalid_request"
    assert param.rpartition(".")[2] in caught.value.message
    assert len(caught.value.message) < 400
    assert ready.engine.policies == []


async def test_a_limit_is_named_as_it_is_asked_for(one: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, max_thinking_tokens=200)
    async with (
        serving(SURE, certificates=[one], settings=settings) as running,
        client_of(running.app) as client,
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(**ASKED, max_output_tokens=300)
    assert caught.value.param == "max_output_tokens"


async def test_nothing_is_stored_and_the_404_says_so(client: AsyncOpenAI) -> None:
    response = await client.responses.create(**ASKED)
    for act in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError, match="responses are not stored"):
            await act(response.id)
