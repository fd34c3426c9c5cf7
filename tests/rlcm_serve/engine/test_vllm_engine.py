"""The engine as a caller sees it: exits at the checkpoint that fires, every reading, clean ends."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from dataclasses import replace
from itertools import accumulate

import pytest

from calibration import FULL_BUDGET, INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.core import Budget, Message, PromptReading, Reading, Role, Sampling
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.facts import EngineFacts
from rlcm_serve.engine.worker.hooks import SUPPORTED
from rlcm_serve.errors import RequestRefused
from tests.rlcm_serve.engine.asking import forced_answers, generation, think, user
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 36, seed=1)]


@pytest.fixture(scope="module", params=["engine", "adopted"])
def engine(request: pytest.FixtureRequest) -> VllmEngine:
    """A vLLM that the engine launched, with shared memory; or one that it adopted, without."""
    found: VllmEngine = request.getfixturevalue(request.param)
    return found


def expected_exit(policy: ExitPolicy, checkpoints: list[Reading]) -> tuple[int, ExitReason] | None:
    """Where the one definition of the rule stops on these readings."""
    state = INITIAL_STATE
    for checkpoint in checkpoints:
        state, exit_ = step(policy, state, checkpoint.tokens, checkpoint.confidence)
        if exit_ is not None:
            return checkpoint.tokens, exit_
    return None


async def test_stops_at_the_very_checkpoint_that_fires(engine: VllmEngine) -> None:
    rng = random.Random(7)
    policies = [
        ExitPolicy(
            lambda_low=rng.choice([-1.0, 0.1, 0.3]),
            patience=rng.choice([0, 64, 128]),
            lambda_high=rng.choice([0.5, 0.8, 0.95, 1.01]),
            smoothing=rng.choice([0.0, 0.5]),
        )
        for _ in QUESTIONS
    ]
    runs = await asyncio.gather(*map(think, [engine] * 36, QUESTIONS, policies))
    interval, seen = engine.identity.checkpoint_interval, set()
    for policy, told in zip(policies, runs, strict=True):
        rollout = told.rollout
        early = [c for c in told.checkpoints if not c.is_final]
        last = len(rollout.tokens)
        read = last - (rollout.exit is ExitReason.BUDGET)  # the budget's end is a final reading
        assert [c.tokens for c in early] == list(range(interval, read + 1, interval))
        fired = expected_exit(policy, early)
        assert fired == ((last, rollout.exit) if rollout.exit in ("high", "low") else None)
        assert tuple(told.checkpoints) == rollout.readings
        seen.add(rollout.exit)
    assert {ExitReason.HIGH, ExitReason.LOW, ExitReason.NATURAL} <= seen


async def test_the_engine_says_what_it_computes_with(engine: VllmEngine) -> None:
    facts = engine.identity.facts
    assert engine.running is not None
    on_v2 = engine.running.llm.vllm_config.use_v2_model_runner
    assert replace(facts, vllm="") == EngineFacts(
        dtype="float32",
        kv_cache_dtype="float32",
        attention_backend="CPU_ATTN",
        model_runner="v2" if on_v2 else "v1",
        device="cpu",
    )
    assert facts.vllm in SUPPORTED


async def test_a_natural_end_has_its_final_reading_and_the_models_own_answer(
    engine: VllmEngine,
) -> None:
    told = await think(engine, QUESTIONS[0])
    rollout, last = told.rollout, told.checkpoints[-1]
    assert rollout.exit is ExitReason.NATURAL
    assert last == Reading(len(rollout.tokens), last.confidence, is_final=True)
    assert "\\boxed{" in (rollout.answer_text or "")
    assert 0 < rollout.answer_tokens <= engine.identity.budget.answer
    assert "</think>" not in rollout.text


async def test_an_answer_that_the_token_limit_ends_is_not_complete(engine: VllmEngine) -> None:
    greedy = generation(engine, sampling=Sampling(0.0, 1.0))
    whole = (await think(engine, QUESTIONS[0], FULL_BUDGET, greedy)).rollout
    brief = replace(greedy, budget=Budget(thinking=len(whole.tokens) + 1, answer=1))
    cut = (await think(engine, QUESTIONS[0], FULL_BUDGET, brief)).rollout
    assert (cut.exit, cut.tokens) == (ExitReason.NATURAL, whole.tokens)
    assert (cut.answer_complete, whole.answer_complete) == (False, True)
    assert cut.answer_text
    assert (whole.answer_text or "").startswith(cut.answer_text)


@pytest.mark.parametrize("thinking", [1, 31, 32, 33, 40])
async def test_the_budget_ends_thinking_with_a_final_reading(
    engine: VllmEngine, thinking: int
) -> None:
    how = generation(engine, Budget(thinking=thinking, answer=32))
    told = await think(engine, QUESTIONS[0], FULL_BUDGET, how)
    assert told.rollout.exit is ExitReason.BUDGET
    assert len(told.rollout.tokens) == thinking == told.tokens
    assert [c.tokens for c in told.checkpoints] == [*range(32, thinking, 32), thinking]
    assert [c.is_final for c in told.checkpoints] == [False] * (len(told.checkpoints) - 1) + [True]


async def test_stop_ids_are_never_sampled_nor_kept(engine: VllmEngine) -> None:
    told = await think(engine, QUESTIONS[3], ExitPolicy(lambda_high=0.0001, lambda_low=-1))
    rollout = told.rollout
    assert rollout.exit is ExitReason.HIGH
    assert len(rollout.tokens) == engine.identity.checkpoint_interval
    assert not set(rollout.tokens) & set(engine.stop_ids)
    assert rollout.discarded == 1
    assert told.tokens == len(rollout.tokens), "the stop id is no token that was sampled"


# At temperature 2 the model draws bytes that make no characters, and parts of some that do.
@pytest.mark.parametrize("temperature", [0.8, 2.0])
@pytest.mark.parametrize("thinking", [100, 512])
async def test_the_text_that_streams_is_the_text_that_was_drawn(
    engine: VllmEngine, temperature: float, thinking: int
) -> None:
    # Seeded, or an answer may end at the very token that would have been its last anyway.
    how = generation(engine, Budget(thinking, 64), sampling=Sampling(temperature, 1.0), seed=1)
    runs = await asyncio.gather(
        *(think(engine, question, FULL_BUDGET, how, text=True) for question in QUESTIONS)
    )
    for told in runs:
        rollout = told.rollout
        own = "".join(delta.text for delta in told.deltas if delta.is_answer)
        assert own == (rollout.answer_text or "")
        assert told.text == rollout.text + own
        # All but the id that ended it, unless it was cut off.
        sampled = len(rollout.tokens) + rollout.discarded + rollout.answer_tokens
        assert told.tokens == sampled - (sampled < thinking + 64 + 2)
    if thinking == 100:
        assert {told.rollout.exit for told in runs} >= {ExitReason.BUDGET}
    if temperature == 2.0:
        assert any("\N{REPLACEMENT CHARACTER}" in told.text for told in runs)


async def test_without_text_tokens_come_in_larger_steps(engine: VllmEngine) -> None:
    told = await think(engine, QUESTIONS[0])
    assert told.text == ""
    assert max(delta.tokens for delta in told.deltas) > 1
    # A checkpoint stands with the next token, and comes with it. A busy machine hands on several
    # steps at once, so what counts is what had come before.
    come = [0, *accumulate(delta.tokens for delta in told.deltas)]
    for checkpoint, arrived in zip(told.checkpoints, told.arrived, strict=True):
        before = max(tokens for tokens in come if tokens < arrived)
        assert checkpoint.is_final or before <= checkpoint.tokens < arrived


async def test_forced_answers_continue_inside_the_box(engine: VllmEngine) -> None:
    prompt = engine.prompt(user(QUESTIONS[0]))
    rollout = (await think(engine, QUESTIONS[0])).rollout
    completions = await forced_answers(engine, prompt, rollout.tokens, generation(engine), 4)
    assert len(completions) == 4
    assert all(c.text.split("}")[0].lstrip("-").isdigit() for c in completions)
    assert all(1 <= c.tokens <= engine.identity.budget.answer for c in completions)


async def test_closing_a_sample_early_stops_the_engine(engine: VllmEngine) -> None:
    prompt = engine.prompt(user(QUESTIONS[-1]))
    async with aclosing(engine.think(prompt, FULL_BUDGET, generation(engine))) as events:
        first = await anext(events)
    assert isinstance(first, PromptReading)
    assert engine.in_flight == 0


async def test_a_prompt_without_room_is_refused(engine: VllmEngine) -> None:
    prompt = engine.prompt(user("A dial shows 3. " * 300))
    with pytest.raises(RequestRefused, match="context") as refusal:
        engine.check(prompt, generation(engine))
    assert refusal.value.field == "problem"
    with pytest.raises(RequestRefused, match="context"):
        await think(engine, prompt)


async def test_the_sampling_is_the_requests_own(engine: VllmEngine) -> None:
    greedy = generation(engine, sampling=Sampling(temperature=0.0, top_p=1.0))
    narrow = generation(engine, sampling=Sampling(temperature=1.0, top_p=1e-6))
    free = generation(engine, sampling=Sampling(temperature=1.2, top_p=1.0))
    runs = await asyncio.gather(
        *(think(engine, QUESTIONS[5], FULL_BUDGET, how) for how in (greedy, narrow, *[free] * 4))
    )
    one, other, *others = (told.rollout.tokens for told in runs)
    assert one == other
    assert len({*others}) == 4


async def test_the_same_seed_draws_the_same_sample(engine: VllmEngine) -> None:
    seeded = [generation(engine, seed=seed) for seed in range(12)]
    alone = [await think(engine, QUESTIONS[seed], FULL_BUDGET, seeded[seed]) for seed in (0, 1, 2)]
    crowd = await asyncio.gather(
        *(think(engine, QUESTIONS[n % 12], FULL_BUDGET, seeded[n % 12]) for n in range(36)),
        *(think(engine, question) for question in QUESTIONS),
    )
    sampled = [told.rollout.tokens for told in crowd]
    assert sampled[:12] == sampled[12:24] == sampled[24:36]
    assert [told.rollout.tokens for told in alone] == sampled[:3]
    assert (await think(engine, QUESTIONS[0], FULL_BUDGET, seeded[1])).rollout.tokens != sampled[0]


async def test_the_same_seed_forces_the_same_answers(engine: VllmEngine) -> None:
    prompt = engine.prompt(user(QUESTIONS[0]))
    hot = Sampling(temperature=2.0, top_p=1.0)
    runs = [
        await forced_answers(engine, prompt, (), generation(engine, sampling=hot, seed=seed), 4)
        for seed in (2**63, 2**63, 5)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert len(set(runs[0])) > 1, "the answers of one seed differ"


async def test_seed_and_temperature_zero_are_no_contradiction(engine: VllmEngine) -> None:
    greedy = Sampling(temperature=0.0, top_p=1.0)
    runs = [
        await think(
            engine, QUESTIONS[2], FULL_BUDGET, generation(engine, sampling=greedy, seed=seed)
        )
        for seed in (None, 1, 2)
    ]
    assert len({told.rollout.tokens for told in runs}) == 1


async def test_what_of_a_prompt_was_cached_is_counted(engine: VllmEngine) -> None:
    asked = f"Counted. {QUESTIONS[1]}"  # nobody else's begins like this
    history = [Message(Role.USER, asked), Message(Role.ASSISTANT, "It shows 4.")] * 6
    prompt = engine.prompt([*history, Message(Role.USER, QUESTIONS[2])])
    how = generation(engine, Budget(20, 8))
    cached = [
        (await think(engine, prompt, FULL_BUDGET, how)).rollout.cached_prompt_tokens
        for _ in range(3)
    ]
    assert cached[0] == 0
    assert 0 < cached[1] == cached[2] <= len(prompt)
    assert len(prompt) - cached[1] <= 128, "whole blocks are cached"


async def test_requests_with_another_salt_find_nothing_cached_and_think_the_same(
    engine: VllmEngine,
) -> None:
    asked = f"Salted. {QUESTIONS[1]}"  # nobody else's begins like this
    history = [Message(Role.USER, asked), Message(Role.ASSISTANT, "It shows 7.")] * 6
    prompt = engine.prompt([*history, Message(Role.USER, QUESTIONS[2])])
    greedy = Sampling(temperature=0.0, top_p=1.0)
    runs = [
        await think(
            engine,
            prompt,
            FULL_BUDGET,
            generation(engine, Budget(20, 8), sampling=greedy, cache_salt=salt),
        )
        for salt in ("a", "a", "b", None)
    ]
    first, again, other, unsalted = (told.rollout.cached_prompt_tokens for told in runs)
    assert (first, other, unsalted) == (0, 0, 0)
    assert again > 0
    assert len({told.rollout.tokens for told in runs}) == 1
