"""Drafts change how fast a rollout comes, and nothing else: its tokens, readings and exit stay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from scipy.stats import kstest

from calibration import FULL_BUDGET, INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.core import Budget, Rollout, Sampling, TokenIds
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.profiles.profile import DEFAULT_NAME
from tests.rlcm_serve.engine.asking import generation, think, user
from tests.rlcm_serve.engine.crowd import (
    INTERVAL,
    Forward,
    compare_inputs_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
    vllm_says,
)
from tests.rlcm_serve.engine.drafting import save_draft_model, with_drafts
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.v2

GREEDY = Sampling(temperature=0.0, top_p=1.0)
REQUESTS = 20
DIGITS = "0123456789"
TIE = 1e-4
"""Where two logits differ by less, rounding decides, and drafts change the order of the sums."""


@pytest.fixture(scope="module")
async def drafting(
    on_v2: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[VllmEngine]:
    """With a prefix cache, from which preempted requests are resumed."""
    drafts = with_drafts(save_draft_model(tmp_path_factory.mktemp("drafts") / "draft"))
    arguments = ("--enable-prefix-caching", *drafts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # for `verify_in_parts`
        engine = VllmEngine(cramped_settings(*arguments, record_inputs=True))
        await engine.start()
        yield engine
        engine.stop()


async def verify_in_parts(engine: VllmEngine, rows: int) -> None:
    """Lets vLLM verify at most so many rows at once, as it does where logits are large."""
    assert engine.running is not None
    await engine.running.llm.collective_rpc(_set_rows_of_a_part, args=(rows,))  # type: ignore[arg-type]


def _set_rows_of_a_part(worker: object, rows: int) -> None:
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler

    rejection_sampler.get_max_chunk_logits = lambda vocab_size: rows


@pytest.fixture(scope="module")
def forward(drafting: VllmEngine) -> Forward:
    return Forward(drafting.stop_ids)


def greedy_until(forward: Forward, prompt: TokenIds, tokens: TokenIds) -> int:
    """How many of the tokens are the likeliest ones; all but those after a tie must be."""
    log_probs_TV = forward.log_probs_TV((*prompt, *tokens))[len(prompt) - 1 : -1]
    top_T2 = log_probs_TV.topk(2, dim=-1)
    for at, token in enumerate(tokens):
        if token != top_T2.indices[at, 0]:
            gap = float(top_T2.values[at, 0] - top_T2.values[at, 1])
            assert gap < TIE, f"token {at} is {token}, and not the likeliest by {gap}"
            return at
    return len(tokens)


async def greedy(
    engine: VllmEngine, questions: Sequence[str], policies: Sequence[ExitPolicy], thinking: int
) -> list[tuple[TokenIds, Rollout]]:
    how = generation(engine, Budget(thinking, 32), sampling=GREEDY)
    runs = await asyncio.gather(
        *(think(engine, q, p, how) for q, p in zip(questions, policies, strict=True))
    )
    prompts = [engine.prompt(user(question)) for question in questions]
    return list(zip(prompts, (told.rollout for told in runs), strict=True))


async def test_greedy_rollouts_are_those_without_drafts(
    drafting: VllmEngine, forward: Forward
) -> None:
    questions = [p.question for p in sample_problems(Split.VALIDATION, 20, seed=31)]
    policies = [ExitPolicy(lambda_high=(1.01, 0.6, 0.8, 0.95)[n % 4]) for n in range(20)]
    runs = await greedy(drafting, questions, policies, thinking=100)
    assert compare_inputs_with_transformers(runs, forward) > 60
    assert drafting.identity.facts.speculation == "draft_model, 3 tokens, standard"
    seen = set()
    for (prompt, rollout), policy in zip(runs, policies, strict=True):
        assert greedy_until(forward, prompt, rollout.tokens) > 0
        early = [reading for reading in rollout.readings if not reading.is_final]
        state, fired = INITIAL_STATE, None
        for reading in early:
            assert fired is None, "nothing is read after an exit"
            state, fired = step(policy, state, reading.tokens, reading.confidence)
        last = early[-1].tokens if early else 0
        read = len(rollout.tokens) - (rollout.exit is ExitReason.BUDGET)
        assert last == read // INTERVAL * INTERVAL
        if rollout.exit is ExitReason.HIGH:
            assert (fired, last) == (ExitReason.HIGH, len(rollout.tokens))
            assert rollout.discarded == 1, "the stop id alone: drafts after it are refused"
        else:
            assert fired is None
        seen.add(rollout.exit)
    assert {ExitReason.HIGH, ExitReason.BUDGET} <= seen


def answers_greedily(forward: Forward, prefix: TokenIds, ends: frozenset[int]) -> TokenIds:
    """What the model answers after a prefix, by whole forward passes."""
    answer: list[int] = []
    while not answer or answer[-1] not in ends:
        answer.append(int(forward.log_probs_TV((*prefix, *answer))[-1].argmax()))
    return tuple(answer)


async def test_drafted_ends_of_thinking_and_text_end_where_they_do_without_drafts(
    drafting: VllmEngine, forward: Forward
) -> None:
    """The thinking is closed, the model answers and ends its text, all among drafts."""
    easy = [p.question for p in sample_problems(Split.VALIDATION, 2, seed=5, levels=[1])]
    runs = await greedy(drafting, easy, [FULL_BUDGET] * 2, thinking=240)
    compare_inputs_with_transformers(runs, forward)
    text = drafting.under(DEFAULT_NAME).text
    assert text.think_end is not None
    for prompt, rollout in runs:
        assert rollout.exit is ExitReason.NATURAL
        thought = (*prompt, *rollout.tokens)
        assert int(forward.log_probs_TV(thought)[-1].argmax()) == text.think_end
        answer = answers_greedily(forward, (*thought, text.think_end), text.end_ids)
        assert rollout.answer_text == text.answer(answer)
        assert (rollout.answer_tokens, rollout.discarded) == (len(answer), 1)


async def test_answers_under_a_schema_share_steps_with_thinking(
    drafting: VllmEngine, forward: Forward
) -> None:
    """A grammar masks the logits before exit control; n answers share a prefix."""
    questions = [p.question for p in sample_problems(Split.VALIDATION, 3, seed=8)]
    digit = json.dumps({"type": "integer", "minimum": 0, "maximum": 9})
    under = generation(drafting, Budget(48, 8), sampling=GREEDY, schema=digit)
    freely = generation(drafting, Budget(48, 8), schema=digit)
    prompt = drafting.prompt(user(questions[0]))
    policies = [FULL_BUDGET, ExitPolicy(lambda_high=0.01)]
    (likeliest,), several, runs = await asyncio.gather(
        drafting.continue_after(prompt, (), "", under),
        drafting.continue_after(prompt, (), "", freely, 4),
        greedy(drafting, questions[1:], policies, thinking=48),
    )
    compare_inputs_with_transformers(runs, forward)
    assert [rollout.exit for _, rollout in runs] == [ExitReason.BUDGET, ExitReason.HIGH]
    assert all(one.complete and one.text in DIGITS for one in several)
    first_V = forward.log_probs_TV(
        (*prompt, *drafting.under(DEFAULT_NAME).text.close("", after=()))
    )[-1]
    ids = [
        drafting.under(DEFAULT_NAME).text.tokenizer.encode(one, add_special_tokens=False)[0]
        for one in DIGITS
    ]
    assert (likeliest.text, likeliest.complete) == (DIGITS[int(first_V[ids].argmax())], True)


def ranks(
    forward: Forward, prompt: TokenIds, sampled: TokenIds, how: Sampling, rng: np.random.Generator
) -> list[float]:
    """Where each token lies in its own distribution, likely tokens first: uniform in (0, 1)."""
    log_probs_TV = forward.log_probs_TV((*prompt, *sampled))[len(prompt) - 1 : -1]
    chance_TV = (log_probs_TV / how.temperature).softmax(dim=-1).double()
    found = []
    for chance_V, token in zip(chance_TV, sampled, strict=True):
        own = chance_V[token]
        found.append(float(chance_V[chance_V > own].sum() + rng.random() * own))
    return found


async def test_sampled_rollouts_are_read_right_under_chunks_preemption_and_aborts(
    drafting: VllmEngine, forward: Forward
) -> None:
    await verify_in_parts(drafting, 9)
    finished = [run for run in await crowd(drafting, REQUESTS) if run is not None]
    assert preemptions() > 0, "the cache was to be too small"
    assert compare_inputs_with_transformers(finished, forward) > 100
    assert {rollout.exit for _, rollout in finished} >= {ExitReason.NATURAL, ExitReason.BUDGET}
    drafted, accepted = (
        vllm_says(f"spec_decode_num_{what}_tokens_total") for what in ("draft", "accepted")
    )
    assert 0.2 < accepted / drafted < 0.95, "some drafts were to be accepted, and some refused"
    # The distribution of each token is known, so one sample is tested against it. With 1,000
    # tokens, ranks whose distribution is off by .11 are found in 99 of 100 cases.
    how, rng, found = drafting.identity.sampling, np.random.default_rng(0), []
    assert how.top_p == 1
    for prompt, rollout in finished:
        closing = (
            (drafting.under(DEFAULT_NAME).text.think_end,)
            if rollout.exit is ExitReason.NATURAL
            else ()
        )
        found += ranks(forward, prompt, (*rollout.tokens, *closing), how, rng)
    assert len(found) > 1000
    assert kstest(found, "uniform").pvalue > 1e-4
