"""Signals of tokens equal a fresh forward of the final sequence, whatever the scheduler did.

The model here has no probe: it is served, and stopped, by what its tokens say.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from calibration import FULL_BUDGET, INITIAL_STATE, ExitPolicy, ExitReason, step
from rlcm_serve.core import Budget, Sampling, Signal
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.errors import ModelRefused
from rlcm_serve.profiles.profile import DEFAULT_NAME
from tests.rlcm_serve.engine.asking import generation, think, user
from tests.rlcm_serve.engine.crowd import (
    INTERVAL,
    Forward,
    compare_signals_with_transformers,
    cramped_settings,
    crowd,
    preemptions,
)
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 12, seed=4)]
GREEDY = Sampling(temperature=0.0, top_p=1.0)


@pytest.fixture(scope="module")
def probeless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "probeless"
    shutil.copytree(EMBEDDED_MODEL, folder, ignore=shutil.ignore_patterns(PROBE_FOLDER))
    return folder


@pytest.fixture(scope="module")
async def launched(probeless: Path) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(
        cramped_settings(model=str(probeless), confidence=Signal.SEQUENCE_PROBABILITY)
    )
    await engine.start()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def forward(cramped: VllmEngine) -> Forward:
    return Forward(cramped.stop_ids)


async def test_signals_match_under_chunks_preemption_priorities_and_aborts(
    cramped: VllmEngine, forward: Forward, probeless: Path
) -> None:
    finished = [run for run in await crowd(cramped) if run is not None]
    assert preemptions(str(probeless)) > 0, "the cache was to be too small"
    assert compare_signals_with_transformers(finished, forward) > 300
    for _, rollout in finished:
        for checkpoint in rollout.readings:
            assert checkpoint.signals is not None
            assert list(checkpoint.signals) == ["sequence-probability", "lowest-group", "tail"]
            assert checkpoint.confidence == checkpoint.signals["sequence-probability"]


async def test_an_exit_happens_where_replay_predicts(cramped: VllmEngine) -> None:
    how, seen = generation(cramped, sampling=GREEDY), set()
    for question in QUESTIONS:
        full = (await think(cramped, question, FULL_BUDGET, how)).rollout
        early = full.readings[:-1]
        levels = sorted(checkpoint.confidence for checkpoint in early)
        for policy in (
            ExitPolicy(lambda_high=levels[len(levels) // 2]),
            ExitPolicy(lambda_low=levels[-1] - 1e-4, patience=2 * INTERVAL),
        ):
            state, expected = INITIAL_STATE, (len(full.tokens), full.exit)
            for checkpoint in early:
                state, exit_ = step(policy, state, checkpoint.tokens, checkpoint.confidence)
                if exit_ is not None:
                    expected = (checkpoint.tokens, exit_)
                    break
            live = (await think(cramped, question, policy, how)).rollout
            assert (len(live.tokens), live.exit) == expected
            seen.add(live.exit)
    assert {ExitReason.HIGH, ExitReason.LOW} <= seen


async def test_a_certificate_is_told_what_the_confidence_is(cramped: VllmEngine) -> None:
    assert cramped.identity.probe == "signal:sequence-probability"


async def test_without_another_confidence_a_model_without_a_probe_is_refused(
    probeless: Path,
) -> None:
    engine = VllmEngine(EngineSettings(model=str(probeless)))
    with pytest.raises(
        ModelRefused, match=r"train a probe with .* `--confidence sequence-probability`"
    ):
        await engine.start()


async def test_a_continuations_pieces_are_its_text_and_its_probabilities(
    cramped: VllmEngine, forward: Forward
) -> None:
    prompt = cramped.prompt(user(QUESTIONS[0]))
    thinking = (await think(cramped, QUESTIONS[0])).rollout.tokens
    opening = "If I were to give the final answer now, the final answer would be \\boxed{"
    how = generation(cramped, Budget(thinking=1, answer=12))
    said = await cramped.continue_after(prompt, thinking, opening, how, 4, logprobs=True)
    closed = (*prompt, *thinking, *cramped.under(DEFAULT_NAME).text.close(opening))
    for completion in said:
        assert completion.pieces is not None
        assert "".join(text for text, _ in completion.pieces) == completion.text
        assert len(completion.pieces) == completion.tokens
        ids = cramped.under(DEFAULT_NAME).text.tokenizer.encode(
            completion.text, add_special_tokens=False
        )
        log_probs_TV = forward.log_probs_TV((*closed, *ids))[len(closed) - 1 :]
        expected = [float(log_probs_TV[at, id_]) for at, id_ in enumerate(ids)]
        assert [p for _, p in completion.pieces][: len(ids)] == pytest.approx(expected, abs=1e-4)
    (plain,) = await cramped.continue_after(prompt, thinking, opening, how)
    assert plain.pieces is None


async def test_the_entropy_is_that_of_what_follows_the_closed_thinking(
    cramped: VllmEngine, forward: Forward
) -> None:
    prompt, how = cramped.prompt(user(QUESTIONS[1])), generation(cramped)
    thinking = (await think(cramped, QUESTIONS[1])).rollout.tokens
    found = set()
    for cut in (0, 5, 40, len(thinking)):
        entropy = await cramped.entropy_after(prompt, thinking[:cut], how)
        closed = (*prompt, *thinking[:cut], *cramped.under(DEFAULT_NAME).text.close())
        log_prob_V = forward.log_probs_TV(closed)[-1]
        possible_V = log_prob_V[log_prob_V.isfinite()]
        assert entropy == pytest.approx(float(-(possible_V.exp() * possible_V).sum()), abs=1e-4)
        assert 0 <= entropy < math.log(len(log_prob_V))
        found.add(round(entropy, 6))
    assert len(found) == 4
