"""Answers that follow a JSON schema, in the real engine: the thinking before them stays free."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from typing import Any

import pytest

from calibration import FULL_BUDGET, ExitReason
from rlcm_serve.core import Budget, Delta, Reading, Sampling
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.readings.slots import Slot
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.engine.asking import generation, think, user
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 4, seed=1)]
ENDING = "A dial shows 1. A down 1. B down 5. What does it show now?"
GREEDY = Sampling(temperature=0.0, top_p=1.0)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "value": {"type": "integer", "minimum": 0, "maximum": 999},
            "parity": {"enum": ["odd", "even"]},
        },
        "required": ["value", "parity"],
        "additionalProperties": False,
    }
)


async def test_an_answer_follows_its_schema_and_the_thinking_does_not(engine: VllmEngine) -> None:
    how = generation(engine, Budget(512, 64), sampling=GREEDY)
    under = generation(engine, Budget(512, 64), sampling=GREEDY, schema=SCHEMA)
    free = await asyncio.gather(*(think(engine, question, how=how) for question in QUESTIONS))
    thoughts = await asyncio.gather(*(think(engine, question, how=under) for question in QUESTIONS))
    for plain, told in zip(free, thoughts, strict=True):
        assert told.rollout.tokens == plain.rollout.tokens
        assert (told.rollout.exit, told.rollout.answer_text) == (plain.rollout.exit, None)
        final, expected = told.checkpoints[-1], plain.checkpoints[-1]
        assert (final.tokens, final.is_final) == (expected.tokens, True)
        assert final.confidence == pytest.approx(expected.confidence, abs=1e-4)
    ended = [
        (plain.rollout, told)
        for plain, told in zip(free, thoughts, strict=True)
        if told.rollout.exit is ExitReason.NATURAL
    ]
    assert ended
    for rollout, told in ended:
        assert rollout.answer_tokens > 0
        assert told.rollout.answer_tokens == 0, "its text need not follow the schema"
        assert told.tokens == len(told.rollout.tokens) + 1
    forced = await asyncio.gather(
        *(
            engine.continue_after(engine.prompt(user(question)), told.rollout.tokens, "", under, 1)
            for question, told in zip(QUESTIONS, thoughts, strict=True)
        )
    )
    for completion in (one for several in forced for one in several):
        found = json.loads(completion.text)
        assert completion.complete
        assert list(found) == ["value", "parity"]
        assert 0 <= found["value"] <= 999
        assert found["parity"] in ("odd", "even")


async def test_a_reading_at_a_budget_that_was_not_reached_is_not_c_end(
    engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts may reach the budget in the very step in which the model ends its thinking."""
    under = generation(engine, Budget(512, 64), sampling=GREEDY, schema=SCHEMA)
    plain = await think(engine, ENDING, how=under)
    assert engine.running is not None
    acquire = engine.running.table.acquire

    async def with_reading_at_budget(interval: int) -> Slot:
        slot = await acquire(interval)
        slot._row["final_tokens"], slot._row["final_confidence"], slot._row["finished"] = 512, 0, 1
        return slot

    monkeypatch.setattr(engine.running.table, "acquire", with_reading_at_budget)
    told = await think(engine, ENDING, how=under)
    assert told.rollout.exit is ExitReason.NATURAL
    final, expected = told.rollout.readings[-1], plain.rollout.readings[-1]
    assert (final.tokens, final.is_final) == (len(told.rollout.tokens), True)
    assert final.confidence == pytest.approx(expected.confidence, abs=1e-4)


async def test_a_text_that_the_budget_cuts_off_is_not_complete(engine: VllmEngine) -> None:
    how = generation(engine, Budget(16, 3), schema=SCHEMA)
    (cut,) = await engine.continue_after(engine.prompt(user(QUESTIONS[0])), (), "", how)
    assert (cut.tokens, cut.complete) == (3, False)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"type": "string", "format": "no-such"}, "format"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "not"),
        ({"type": "object", "dependentRequired": 3}, "dependentRequired"),
    ],
)
async def test_a_schema_that_cannot_be_followed_is_refused_before_any_token(
    engine: VllmEngine, schema: dict[str, Any], told: str
) -> None:
    how = generation(engine, schema=json.dumps(schema))
    with pytest.raises(RequestRefused, match=told) as caught:
        engine.check(engine.prompt(user(QUESTIONS[0])), how)
    assert caught.value.field == "response_format"


async def test_the_schemas_of_callers_are_bounded(engine: VllmEngine) -> None:
    how = generation(engine, schema='{"type": "array", "minItems": 10000000}')
    with pytest.raises(RequestRefused, match="give at most 1000"):
        engine.check(engine.prompt(user(QUESTIONS[0])), how)


async def test_the_largest_schemas_take_little_time(engine: VllmEngine) -> None:
    inner: dict[str, Any] = {"type": "string", "minLength": 1000, "maxLength": 1000}
    for _ in range(3):
        inner = {"type": "array", "items": inner, "minItems": 1000, "maxItems": 1000}
    how = generation(engine, Budget(16, 8), schema=json.dumps(inner))
    prompt, began = engine.prompt(user(QUESTIONS[0])), time.monotonic()
    engine.check(prompt, how)
    (cut,) = await engine.continue_after(prompt, (), "", how)
    assert not cut.complete
    assert time.monotonic() - began < 20


async def test_the_last_reading_comes_before_most_of_the_answers_text(engine: VllmEngine) -> None:
    events: list[object] = []
    thinking = engine.think(
        engine.prompt(user(QUESTIONS[0])), FULL_BUDGET, generation(engine), text=True
    )
    async with aclosing(thinking) as told:
        async for event in told:
            events.append(event)
    rollout = events[-1]
    assert rollout.exit is ExitReason.NATURAL  # type: ignore[attr-defined]
    final = [at for at, e in enumerate(events) if isinstance(e, Reading) and e.is_final]
    answer = [at for at, e in enumerate(events) if isinstance(e, Delta) and e.is_answer]
    assert len(final) == 1
    assert len(answer) > 2
    assert final[0] < answer[2]
