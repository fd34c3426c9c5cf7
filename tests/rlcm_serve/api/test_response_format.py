"""Answers in JSON: what a schema changes, and when it is certified."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from calibration import ExitPolicy
from rlcm_serve.profiles.profile import Profile
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.solver import SCHEMA_TOKENS
from tests.rlcm_serve.api.openai_client import ASKED, chunks_of, client_of, joined
from tests.rlcm_serve.api.serving import PROBLEM, Running, serving
from tests.rlcm_serve.api.test_openai import rlcm_of
from tests.rlcm_serve.scripted_engine import Script, certificate, under


class Dial(BaseModel):
    value: int


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}},
    "required": ["value"],
    "additionalProperties": False,
}
DIAL = Profile(name="dial", schema=SCHEMA, extractor="json:value", template="{problem} In JSON.")
FORMAT = {"type": "json_schema", "json_schema": {"name": "Dial", "schema": SCHEMA, "strict": True}}
JSON = Script(c_end=0.6, continued={"": '{"value": 8}'})


@pytest.fixture
async def ready(tmp_path: Path) -> AsyncIterator[Running]:
    policies = {0.1: ExitPolicy(lambda_high=0.9, lambda_answer=0.4)}
    certificate(policies).save(tmp_path / "plain.json")
    fitted = fingerprint_of(under(DIAL))
    certificate(policies, fingerprint=fitted).save(tmp_path / "dial.json")
    files = [tmp_path / "plain.json", tmp_path / "dial.json"]
    async with serving(JSON, certificates=files, profiles=[DIAL]) as running:
        yield running


async def test_a_schema_of_the_request_is_followed_without_a_guarantee(
    ready: Running, client: AsyncOpenAI
) -> None:
    completion = await client.chat.completions.create(**ASKED, response_format=FORMAT)
    assert completion.choices[0].message.content == '{"value": 8}'
    rlcm = rlcm_of(completion)
    assert rlcm["answer"] == '{"value": 8}', "the whole text, as no profile says what counts"
    assert rlcm["guarantee"] is None
    assert "its response_format is not that of the profile 'default'" in rlcm["no_guarantee_reason"]
    assert '"integer"' in (ready.engine.drawings[-1].schema or "")
    assert ready.engine.drawings[-1].budget.answer == SCHEMA_TOKENS, "there must be room for it"
    assert ready.engine.answering is not None
    assert ready.engine.answering.budget.answer == SCHEMA_TOKENS


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
async def test_a_number_that_json_does_not_have_is_refused(ready: Running, number: str) -> None:
    schema = f'{{"name": "x", "schema": {{"const": {number}}}}}'
    form = f'{{"type": "json_schema", "json_schema": {schema}}}'
    content = f'{{"problem": "What?", "alpha": 0.1, "response_format": {form}}}'
    headers = {"content-type": "application/json"}
    response = await ready.client.post("/solve", content=content, headers=headers)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["field"], "give finite numbers" in response.text) == ("response_format", True)


async def test_the_schema_of_the_profile_is_certified(ready: Running, client: AsyncOpenAI) -> None:
    asked = ASKED | {"model": "scripted:dial"}
    for form in ({}, {"response_format": FORMAT}, {"response_format": {"type": "text"}}):
        completion = await client.chat.completions.create(**asked, **form)
        rlcm = rlcm_of(completion)
        assert rlcm["no_guarantee_reason"] is None
        assert (rlcm["answer"], rlcm["text"]) == ("8", '{"value": 8}')
        assert ready.engine.answering is not None
        assert ready.engine.answering.budget.answer == 8
    other = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    rlcm = rlcm_of(await client.chat.completions.create(**asked, response_format=other))
    assert "the profile 'dial', which has another schema" in rlcm["no_guarantee_reason"]


async def test_the_client_parses_what_it_gets(client: AsyncOpenAI) -> None:
    asked = ASKED | {"model": "scripted:dial"}
    completion = await client.chat.completions.parse(**asked, response_format=Dial)
    assert completion.choices[0].message.parsed == Dial(value=8)
    # The client may send what it parsed along with the message.
    sent_back = {"role": "assistant", "content": '{"value": 8}', "parsed": {"value": 8}}
    messages = [*ASKED["messages"], sent_back, *ASKED["messages"]]
    await client.chat.completions.create(**asked | {"messages": messages})
    async with client.chat.completions.stream(**asked, response_format=Dial) as stream:
        streamed = await stream.get_final_completion()
    assert streamed.choices[0].message.parsed == Dial(value=8)


async def test_json_mode_follows_the_schema_of_any_object(
    ready: Running, client: AsyncOpenAI
) -> None:
    form = {"type": "json_object"}
    completion = await client.chat.completions.create(**ASKED, response_format=form)
    assert completion.choices[0].message.content == '{"value": 8}'
    assert ready.engine.drawings[-1].schema == '{"type":"object"}'
    solved = (await ready.solve(response_format=form)).json()
    assert (solved["text"], solved["forced"]) == ('{"value": 8}', True)


async def test_a_text_that_was_cut_off_is_an_abstention() -> None:
    cut = Script(c_end=0.6, continued={"": '{"val'}, complete=False)
    async with serving(cut) as running:
        solved = await running.solve(response_format=FORMAT, on_infeasible="full_budget")
        async with client_of(running.app) as client:
            extra = {"on_infeasible": "full_budget"}
            asked = ASKED | {"response_format": FORMAT, "extra_body": extra}
            completion = await client.chat.completions.create(**asked)
            with pytest.raises(openai.LengthFinishReasonError):
                await client.chat.completions.parse(**asked)
            response = await client.responses.create(
                model="scripted",
                input=PROBLEM,
                text={"format": {"type": "json_object"}},
                extra_body=extra,
            )
    assert (solved.json()["answer"], solved.json()["abstained"]) == (None, True)
    assert completion.choices[0].finish_reason == "length"
    assert "cut its answer off" in (completion.choices[0].message.refusal or "")
    assert response.status == "incomplete"


async def test_a_streamed_answer_is_the_schemas_text_alone(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(**ASKED, response_format=FORMAT, stream=True)
    assert joined(await chunks_of(stream), "content") == '{"value": 8}'


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({}, "response_format is {}: give 'type'"),
        ({"type": "xml"}, "give 'text', 'json_object', 'json_schema' as 'type'"),
        ({"type": "json_schema"}, "json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "schema"),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"enum": ["7" * 20000]}},
            },
            "the schema of the answer has 20013 characters: give at most 20000",
        ),
    ],
)
async def test_a_malformed_response_format_is_refused(
    client: AsyncOpenAI, form: Any, told: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(**ASKED, response_format=form)
    assert told in caught.value.message
    assert PROBLEM not in caught.value.message
