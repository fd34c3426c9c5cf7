from pathlib import Path
from typing import Any

import jsonschema
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion

from calibration import ExitPolicy
from rlcm_serve.api.wire.openai import answer_text
from rlcm_serve.api.wire.openai.asked import OpenAIRequest
from rlcm_serve.api.wire.openai.chat.request import ChatRequest
from rlcm_serve.api.wire.openai.responses.request import ResponseRequest
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.openai_client import ASKED, client_of
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.scripted_engine import (
    BUDGET,
    FORCED_TOKENS,
    OWN_ANSWER_TOKENS,
    SUFFIX_TOKENS,
    Script,
    certificate,
)

ONE = certificate(
    {
        0.05: None,
        0.1: ExitPolicy(lambda_high=0.9, lambda_answer=0.4),
        0.2: ExitPolicy(lambda_high=0.8, lambda_answer=0.4),
    }
)
SURE, UNSURE = Script(c_end=0.6), Script(c_end=0.3)
ENDLESS = Script(c_end=0.3, ends_at=None)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    ONE.save(tmp_path / "one.json")
    return tmp_path / "one.json"


async def complete(
    one: Path, *scripts: Script, **changes: Any
) -> tuple[ChatCompletion, dict[str, Any]]:
    """A completion by samples that go as scripted, and what is under `rlcm`."""
    async with serving(*scripts, certificates=[one]) as running, client_of(running.app) as client:
        completion = await client.chat.completions.create(**ASKED | changes)
    return completion, rlcm_of(completion)


def rlcm_of(completion: ChatCompletion) -> dict[str, Any]:
    """What this service says beyond OpenAI's fields."""
    found: dict[str, Any] = (completion.model_extra or {})["rlcm"]
    return found


async def refusal_of(client: AsyncOpenAI, **changes: Any) -> openai.BadRequestError:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(**ASKED | changes)
    return caught.value


async def test_the_plain_client_gets_an_answer_with_a_guarantee(client: AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(**ASKED)
    assert completion.object == "chat.completion"
    assert completion.id.startswith("chatcmpl-")
    assert completion.model == "scripted"
    (choice,) = completion.choices
    assert choice.finish_reason == "stop"
    assert choice.message.role == "assistant"
    assert choice.message.content == r"It is \boxed{7}."
    assert rlcm_of(completion)["answer"] == "7"
    assert completion.system_fingerprint == rlcm_of(completion)["guarantee"]["certificate"]
    assert choice.message.refusal is None
    assert choice.message.model_extra == {"reasoning": "hmhmhm", "reasoning_content": "hmhmhm"}
    rlcm = rlcm_of(completion)
    assert "at most 10% get a wrong answer on average" in rlcm["guarantee"]["statement"]
    assert next(iter(rlcm["guarantee"])) == "statement"
    assert rlcm["no_guarantee_reason"] is None
    assert (rlcm["alpha"], rlcm["alpha_is_default"]) == (0.1, True)


async def test_the_text_is_cut_at_a_stop_sequence_and_the_answer_stays(
    client: AsyncOpenAI,
) -> None:
    completion = await client.chat.completions.create(**ASKED, stop=["}", r" \boxed"])
    assert completion.choices[0].message.content == "It is"
    assert rlcm_of(completion)["answer"] == "7"
    assert rlcm_of(completion)["text"] == r"It is \boxed{7}."
    assert rlcm_of(completion)["guarantee"] is not None


async def test_a_header_has_the_guarantee_or_says_that_there_is_none(client: AsyncOpenAI) -> None:
    raw = client.chat.completions.with_raw_response
    said = (await raw.create(**ASKED, extra_body={"alpha": 0.15})).headers["x-rlcm-guarantee"]
    certificate = (await client.chat.completions.create(**ASKED)).system_fingerprint
    assert said == f"risk=selective; alpha=0.1; delta=0.1; certificate={certificate}"
    said = (await raw.create(**ASKED, temperature=0.1)).headers["x-rlcm-guarantee"]
    assert said == "none"


async def test_a_text_without_an_answer_is_kept_before_the_forced_answer(one: Path) -> None:
    completion, rlcm = await complete(one, Script(c_end=0.6, own=" It is seven. "))
    assert completion.choices[0].message.content == "It is seven.\n\n\\boxed{7}"
    assert (rlcm["answer"], rlcm["forced"]) == ("7", True)


async def test_under_rlcm_is_the_solution_of_solve(ready: Running, client: AsyncOpenAI) -> None:
    solved = (await ready.solve(alpha=0.2, return_trace=True)).json()
    extra = {"alpha": 0.2, "return_trace": True}
    completion = await client.chat.completions.create(**ASKED, extra_body=extra)
    ours = {"id": completion.id, "alpha": 0.2, "alpha_is_default": False}
    assert rlcm_of(completion) == solved | ours


async def test_the_default_alpha_is_a_setting(one: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, default_alpha=0.2)
    async with (
        serving(SURE, certificates=[one], settings=settings) as running,
        client_of(running.app) as client,
    ):
        rlcm = rlcm_of(await client.chat.completions.create(**ASKED))
    assert rlcm["guarantee"]["alpha_certified"] == 0.2
    assert rlcm["alpha_is_default"] is True


async def test_a_stream_of_several_samples_asks_for_no_sample_whether_its_text_is_given(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That replays all readings of a sample, and the text comes at the end anyway."""

    def replays(*_: object) -> bool:
        raise AssertionError("the readings were replayed")

    monkeypatch.setattr(answer_text, "answers_at_last", replays)
    async with serving(SURE, SURE, certificates=[one]) as running, client_of(running.app) as client:
        asked = {**ASKED, "stream": True, "extra_body": {"n_votes": 2}}
        chunks = [chunk async for chunk in await client.chat.completions.create(**asked)]
    assert r"\boxed{7}" in "".join(
        chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices
    )


async def test_usage_counts_everything_once(one: Path) -> None:
    high = Script(confidences=(0.5, 0.95), forced="7}")
    completion, rlcm = await complete(one, SURE, high, extra_body={"n_votes": 2})
    usage, counts = completion.usage, rlcm["usage"]
    assert usage is not None
    assert usage.prompt_tokens == 7 + SUFFIX_TOKENS
    assert usage.completion_tokens == (40 + OWN_ANSWER_TOKENS + 1) + (32 + FORCED_TOKENS + 1)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.total_tokens == counts["total_tokens"]
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 40 + 1 + 32 + 1
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 0


async def test_several_samples_vote_and_the_thinking_is_of_one_that_won(one: Path) -> None:
    other = Script(c_end=0.1, ends_at=20, own=r"\boxed{3}")
    long = Script(c_end=0.9, ends_at=60)
    completion, rlcm = await complete(one, other, long, SURE, extra_body={"n_votes": 3})
    assert [sample["answer"] for sample in rlcm["samples"]] == [None, "7", "7"]
    assert completion.choices[0].message.content == r"It is \boxed{7}."
    assert (completion.choices[0].message.model_extra or {})["reasoning"] == "hm" * 4
    assert "n is 3, the certified value is 1" in rlcm["no_guarantee_reason"]


async def test_an_abstention_is_a_refusal_and_no_answer(one: Path) -> None:
    completion, rlcm = await complete(one, UNSURE)
    (choice,) = completion.choices
    assert choice.message.content is None
    assert choice.message.refusal is not None
    assert choice.message.refusal.startswith("The service abstained")
    assert "alpha = 0.1" in choice.message.refusal
    assert (choice.message.model_extra or {})["reasoning"] == "hmhmhm"
    assert choice.finish_reason == "stop"
    assert rlcm["abstained"] is True
    assert rlcm["guarantee"] is not None


WORDLESS = Script(c_end=0.95, own="I do not know.", forced="")


@pytest.mark.parametrize(
    ("scripts", "extra"),
    [
        ([WORDLESS], {}),
        ([WORDLESS, UNSURE], {"n_votes": 2}),
        ([WORDLESS], {"alpha": 0.07, "on_infeasible": "full_budget"}),
    ],
)
async def test_an_answer_that_cannot_be_read_is_not_told_as_doubt(
    one: Path, scripts: list[Script], extra: dict[str, Any]
) -> None:
    completion, rlcm = await complete(one, *scripts, extra_body=extra)
    assert rlcm["samples"][0]["confidence"] == 0.95
    assert completion.choices[0].message.refusal == (
        "The service abstained: no answer could be read in what the model wrote."
    )


async def test_out_of_tokens_without_an_answer_is_length(one: Path) -> None:
    completion, rlcm = await complete(one, ENDLESS)
    assert completion.choices[0].finish_reason == "length"
    assert rlcm["exit"] == "budget"
    completion, _ = await complete(one, ENDLESS, UNSURE, extra_body={"n_votes": 2})
    assert completion.choices[0].finish_reason == "stop"
    assert completion.choices[0].message.refusal is not None
    assert (completion.choices[0].message.model_extra or {})["reasoning"] is None
    forced = Script(c_end=0.6, ends_at=None)
    completion, rlcm = await complete(one, forced)
    assert completion.choices[0].message.content == r"\boxed{7}"
    assert rlcm["forced"] is True
    assert completion.choices[0].finish_reason == "stop"


async def test_an_infeasible_alpha_can_be_an_abstention_that_costs_nothing(one: Path) -> None:
    extra = {"alpha": 0.07, "on_infeasible": "abstain"}
    completion, _ = await complete(one, SURE, extra_body=extra)
    message = completion.choices[0].message
    assert message.content is None
    assert "0.07" in (message.refusal or "")
    assert completion.usage is not None
    assert completion.usage.total_tokens == 0


async def test_sampling_is_honoured(ready: Running, client: AsyncOpenAI) -> None:
    await client.chat.completions.create(
        **ASKED, temperature=0.3, top_p=0.9, seed=5, max_completion_tokens=48
    )
    generation = ready.engine.drawings[-1]
    assert (generation.sampling.temperature, generation.sampling.top_p) == (0.3, 0.9)
    assert generation.seed is not None
    assert generation.budget.thinking == 48
    completion = await client.chat.completions.create(**ASKED, max_tokens=20)
    assert ready.engine.drawings[-1].budget.thinking == 20
    assert "max_tokens is 20" in rlcm_of(completion)["no_guarantee_reason"]


async def test_own_settings_are_honoured(ready: Running, client: AsyncOpenAI) -> None:
    extra = {"risk": "regret", "vote": "majority", "n_votes": 2, "stop_when_decided": False}
    completion = await client.chat.completions.create(**ASKED, extra_body=extra)
    assert rlcm_of(completion)["tally"] == {"7": 2}
    assert "no certificate covers the risk 'regret'" in rlcm_of(completion)["no_guarantee_reason"]
    assert ready.engine.drawings[-1].budget.thinking == BUDGET


async def test_parts_and_developers_are_understood(ready: Running, client: AsyncOpenAI) -> None:
    parts = [{"type": "text", "text": "A dial shows 3. "}, {"type": "text", "text": "A up 5."}]
    completion = await client.chat.completions.create(
        **ASKED | {"messages": [{"role": "user", "content": parts}]}
    )
    assert rlcm_of(completion)["guarantee"] is not None
    assert rlcm_of(completion)["usage"]["prompt_tokens"] == 7
    brief = {"role": "developer", "content": "Be brief."}
    completion = await client.chat.completions.create(
        **ASKED | {"messages": [brief, *ASKED["messages"]]}
    )
    assert "system prompt" in rlcm_of(completion)["no_guarantee_reason"]
    assert rlcm_of(completion)["usage"]["prompt_tokens"] == 9


@pytest.mark.parametrize("script", [SURE, UNSURE])
async def test_a_response_can_be_sent_back_as_it_came(one: Path, script: Script) -> None:
    async with serving(script, certificates=[one]) as running, client_of(running.app) as client:
        first = await client.chat.completions.create(**ASKED)
        said = first.choices[0].message
        messages = [*ASKED["messages"], said, *ASKED["messages"]]
        second = await client.chat.completions.create(**ASKED | {"messages": messages})
    rlcm = rlcm_of(second)
    assert "several turns" in rlcm["no_guarantee_reason"]
    words = (said.content or said.refusal or "").split()
    assert words
    assert rlcm["usage"]["prompt_tokens"] == 7 + len(words) + 7


@pytest.mark.parametrize(
    "harmless",
    [
        {"n": 1},
        {"n": None},
        {"user": "u", "safety_identifier": "u", "prompt_cache_key": "k"},
        {
            "metadata": {"run": "7"},
            "store": True,
            "prediction": {"type": "content", "content": "7"},
        },
        {"stop": None, "logit_bias": {}, "tools": [], "tool_choice": "none"},
        {"extra_body": {"chat_template_kwargs": {}}},
        {"stop": ["\n", "Question:"], "prompt_cache_retention": "24h"},
        {"stop": "Question:"},
        {"logprobs": False, "top_logprobs": 0, "parallel_tool_calls": True},
        {"frequency_penalty": 0, "presence_penalty": 0.0},
        {"response_format": {"type": "text"}, "modalities": ["text"], "service_tier": "flex"},
        {"temperature": None, "top_p": None, "seed": None, "max_tokens": None, "stream": None},
        {"max_tokens": BUDGET, "max_completion_tokens": BUDGET},
        {"stream_options": {"include_usage": True}},
    ],
)
async def test_what_asks_for_nothing_changes_nothing(
    client: AsyncOpenAI, harmless: dict[str, Any]
) -> None:
    completion = await client.chat.completions.create(**ASKED | harmless)
    assert completion.choices[0].message.content == r"It is \boxed{7}."
    assert rlcm_of(completion)["guarantee"] is not None


@pytest.mark.parametrize(
    ("path", "kind"), [("chat/completions", ChatRequest), ("responses", ResponseRequest)]
)
async def test_clients_may_send_null_for_what_is_not_set(
    ready: Running, path: str, kind: type[OpenAIRequest]
) -> None:
    given = ASKED if kind is ChatRequest else {"model": "scripted", "input": PROBLEM}
    document = (await ready.client.get("/openapi.json")).json()
    unset = {name: None for name, field in kind.model_fields.items() if not field.is_required()}
    assert {"n_votes", "vote", "risk", "return_trace", "on_infeasible", "stop"} & unset.keys()
    jsonschema.validate(
        given | unset,
        {"components": document["components"], "$ref": f"#/components/schemas/{kind.__name__}"},
    )
    answered = await ready.client.post(f"/v1/{path}", json=given | unset)
    assert answered.status_code == 200, answered.text
    assert answered.json()["rlcm"]["guarantee"] is not None
    for field in given:  # what a request needs is needed
        refused = await ready.client.post(f"/v1/{path}", json=given | {field: None})
        assert refused.status_code == 400, field
        assert refused.json()["error"]["param"] == field


FUNCTION = {"name": "f", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("audio", {"voice": "alloy", "format": "wav"}),
        ("frequency_penalty", 0.5),
        ("function_call", "auto"),
        ("functions", [FUNCTION]),
        ("logit_bias", {"5": 10}),
        ("logprobs", True),
        ("logprobs", 0),
        ("modalities", ["text", "audio"]),
        ("moderation", {"model": "m"}),
        ("n", 2),
        ("presence_penalty", -1),
        ("chat_template_kwargs", {"enable_thinking": False}),
        ("min_p", 0.1),
        ("repetition_penalty", 1.1),
        ("top_k", 20),
        ("reasoning_effort", "low"),
        ("tool_choice", "required"),
        ("tools", [{"type": "function", "function": FUNCTION}]),
        ("top_logprobs", 3),
        ("verbosity", "low"),
        ("web_search_options", {}),
    ],
)
async def test_unsupported_fields_are_refused_with_the_reason(
    ready: Running, client: AsyncOpenAI, field: str, value: Any
) -> None:
    error = await refusal_of(client, extra_body={field: value})
    assert error.param == field
    assert error.code == "invalid_request"
    assert error.type == "invalid_request_error"
    assert "not supported: " in error.message or "n_votes" in error.message
    assert ready.engine.policies == []


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("temperature", {"temperature": 2.5}),
        ("top_p", {"top_p": 0}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": 13}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_completion_tokens", {"max_tokens": 20, "max_completion_tokens": 30}),
        ("alpha", {"extra_body": {"alpha": 1}}),
        ("n_votes", {"extra_body": {"n_votes": 65}}),
        ("vote", {"extra_body": {"vote": "loudest"}}),
        ("n_vote", {"extra_body": {"n_vote": 5}}),
        ("stream_options.include_obfuscation", {
            "stream": True, "stream_options": {"include_obfuscation": True}
        }),
        ("messages", {"messages": []}),
        ("messages", {"messages": [{"role": "user", "content": "  "}]}),
        ("messages", {"messages": [{"role": "user", "content": "word " * 101}]}),
        ("messages", {"messages": [{"role": "assistant", "content": "Hello."}]}),
        ("messages", {"messages": [{"role": "user"}]}),
        ("messages[0].role", {"messages": [{"role": "tool", "content": "7"}]}),
        ("stop", {"stop": ""}),
        ("stop", {"stop": list("abcde")}),
        ("stop", {"stop": "word" * 51}),
        ("max_tokens", {"max_tokens": 10**400}),
        ("max_completion_tokens", {"max_completion_tokens": 10**400}),
        ("messages[0].content", {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:,"}}
        ]}]}),
        ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": ""}}
        ]}]}),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_refused_naming_the_field(
    client: AsyncOpenAI, field: str, changes: dict[str, Any]
) -> None:
    error = await refusal_of(client, **changes)
    assert error.param == field
    assert field.partition(".")[2] in error.message
    assert len(error.message) < 400


async def test_a_limit_is_named_as_it_is_asked_for(one: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, max_n=4, max_thinking_tokens=200)
    async with (
        serving(SURE, certificates=[one], settings=settings) as running,
        client_of(running.app) as client,
    ):
        error = await refusal_of(client, extra_body={"n_votes": 5})
        assert (error.param, "n_votes: n is 5" in error.message) == ("n_votes", True)
        error = await refusal_of(client, max_completion_tokens=300)
        assert error.param == "max_completion_tokens"
        error = await refusal_of(client, max_tokens=300)
        assert error.param == "max_tokens"


async def test_models(client: AsyncOpenAI) -> None:
    (model,) = [model async for model in client.models.list()]
    assert (model.id, model.object, model.owned_by) == ("scripted", "model", "rlcm-serve")
    assert await client.models.retrieve("scripted") == model
    with pytest.raises(openai.NotFoundError, match="is not served here: use 'scripted'") as caught:
        await client.models.retrieve("gpt-4o")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError, match="'gpt-4o' is not served") as caught:
        await client.chat.completions.create(**ASKED | {"model": "gpt-4o"})
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


async def test_a_model_may_have_several_names_instead_of_its_own(one: Path) -> None:
    settings = Settings(served_model_names=["puzzles", "gpt-4o", "puzzles:tutor"])
    profiles = [Profile(name="tutor", system="You are a tutor.")]
    async with (
        serving(SURE, certificates=[one], settings=settings, profiles=profiles) as running,
        client_of(running.app) as client,
    ):
        listed = [model.id async for model in client.models.list()]
        assert listed == [
            "puzzles",
            "gpt-4o",
            "puzzles:tutor",
            "gpt-4o:tutor",
            "puzzles:tutor:tutor",
        ]
        for name in ("puzzles", "gpt-4o"):
            completion = await client.chat.completions.create(**ASKED | {"model": name})
            assert completion.model == name
            assert rlcm_of(completion)["profile"] == "default"
        under = await client.chat.completions.create(**ASKED | {"model": "gpt-4o:tutor"})
        assert rlcm_of(under)["profile"] == "tutor"
        exact = await client.chat.completions.create(**ASKED | {"model": "puzzles:tutor"})
        assert rlcm_of(exact)["profile"] == "default"
        with pytest.raises(
            openai.NotFoundError, match="'scripted' is not served here: use 'puzzles', 'gpt-4o'"
        ):
            await client.chat.completions.create(**ASKED | {"model": "scripted"})
        assert (await running.client.get("/overview")).json()["model"] == "puzzles"
        assert (await running.client.get("/page/about")).json()["model"] == "puzzles"


async def test_a_model_may_be_named_like_a_path(ready: Running, client: AsyncOpenAI) -> None:
    ready.engine.name = "org/model"
    assert (await client.models.retrieve("org/model")).id == "org/model"
    completion = await client.chat.completions.create(**ASKED | {"model": "org/model"})
    assert completion.model == "org/model"


async def test_the_description_is_complete(ready: Running) -> None:
    description = (await ready.client.get("/openapi.json")).json()
    responses = description["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert {"200", "400", "401", "404", "409", "422", "429", "503", "504"} <= set(responses)
    assert set(responses["200"]["content"]) == {"application/json", "text/event-stream"}
    schemas = description["components"]["schemas"]
    ours = [
        name for name in schemas if name.startswith(("Chat", "Model", "Error", "Rlcm", "Response"))
    ]
    assert {"ChatRequest", "ChatMessage", "ChatCompletion", "ModelList"} <= set(ours)
    assert {"ResponseRequest", "ResponseBody", "ResponseUsage"} <= set(ours)
    for name in ours:
        for field, schema in schemas[name]["properties"].items():
            target = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
            assert "description" in schema or "description" in target, (name, field)
            assert "examples" in schema, (name, field)
