"""The vote stop with the real engine: it stops where the replay of the same samples stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from calibration import ExitPolicy, confidence_vote
from calibration.policy.vote_stop import vote_stop
from calibration.policy.voting import NO_ANSWER, Vote
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question, Sample, Solution
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver
from tests.rlcm_serve.engine.crowd import INTERVAL
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 10, seed=8, levels=(3, 4))]
SAMPLES = 6
POLICY = ExitPolicy(lambda_high=0.98, answer_on_low=True)
LEAD = 0.3
SETTINGS = EngineSettings(
    interval=INTERVAL,
    max_tokens=400,
    answer_max_tokens=32,
    slots=128,
    vllm_arguments=(
        *("--max-model-len", "640", "--max-num-seqs", "8", "--block-size", "32"),
        "--no-enable-chunked-prefill",
    ),
)
"""Eight of sixty samples run at a time, so that those of a question begin at different times."""


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[VllmEngine]:
    running = VllmEngine(SETTINGS)
    await running.start()
    yield running
    running.stop()


async def test_a_vote_stops_where_the_replay_stops(engine: VllmEngine) -> None:
    with AnswerGrader() as grader:
        solver = Solver(engine, Guarantees([engine.identity], []), grader)
        whole = await asyncio.gather(*(ask(solver, text, POLICY) for text in QUESTIONS))
        stopping = replace(POLICY, lambda_stop=LEAD)
        stopped = await asyncio.gather(*(ask(solver, text, stopping) for text in QUESTIONS))
        cancelled = 0
        for all_ended, solution in zip(whole, stopped, strict=True):
            check(grader, all_ended, solution)
            cancelled += len(solution.cancelled)
        assert cancelled > 0


async def ask(solver: Solver, text: str, policy: ExitPolicy) -> Solution:
    """Answers under a policy, whatever is certified; the seed makes the samples the same."""
    question = Question(text, alpha=0.1, samples=SAMPLES, seed=3, stop_when_decided=False)
    prepared = solver.prepare(question)
    return await solver.run(replace(prepared, terms=replace(prepared.terms, policy=policy)))


def check(grader: AnswerGrader, all_ended: Solution, stopped: Solution) -> None:
    samples = all_ended.finished
    assert len(samples) == SAMPLES
    depths = [len(sample.rollout.tokens) for sample in samples]
    classes = grader.classes([sample.answer for sample in samples])

    def vote(counted: list[int]) -> Vote:
        weights = [samples[i].rollout.confidence for i in counted]
        return confidence_vote([classes[i] for i in counted], weights)

    counted = vote_stop(depths, vote, LEAD)
    expected = vote(counted)
    for i, (sample, found) in enumerate(zip(samples, stopped.samples, strict=True)):
        if i in counted:
            assert isinstance(found, Sample)
            assert (found.rollout.tokens, found.answer) == (sample.rollout.tokens, sample.answer)
        else:
            assert not isinstance(found, Sample)
            readings = [(reading.tokens, reading.is_final) for reading in found.readings]
            taken = [(reading.tokens, reading.is_final) for reading in sample.rollout.readings]
            assert readings == taken[: len(readings)]
    assert stopped.answer is not None or expected.winner in (None, NO_ANSWER)
    if expected.winner is not None:
        first = next(i for i in counted if classes[i] == expected.winner)
        assert stopped.answer == samples[first].answer
        assert stopped.confidence == pytest.approx(expected.share, abs=1e-4)
