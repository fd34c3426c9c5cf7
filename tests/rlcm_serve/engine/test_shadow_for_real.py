"""Shadow runs with the real engine: a rollout that goes on ends as if it had never stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question, Sample, Solution
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.shadow.full_budget import full_answer
from rlcm_serve.solving.solver import Prepared, Solver
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

QUESTIONS = [p.question for p in sample_problems(Split.VALIDATION, 6, seed=8, levels=(3, 4))]
EAGER = ExitPolicy(lambda_low=-1, lambda_high=0.01)
"""Stops at the first checkpoint."""


async def test_a_rollout_that_goes_on_ends_as_if_it_had_never_stopped(engine: VllmEngine) -> None:
    """Greedy sampling has one course, also for runs that leave the engine at every few tokens."""
    stopped_early = 0
    with AnswerGrader() as grader:
        solver = Solver(engine, Guarantees([engine.identity], []), grader)
        for text in QUESTIONS:
            whole, _ = await ask(solver, text, FULL_BUDGET)
            early, prepared = await ask(solver, text, EAGER)
            assert length(early) <= length(whole)
            stopped_early += early.exit is ExitReason.HIGH
            for is_busy in (lambda: False, often_busy()):
                full = await full_answer(prepared, early, solver.verdicts(prepared), is_busy)
                assert full.answer == whole.answer
                assert full.tokens == length(whole) - length(early)
    assert stopped_early > len(QUESTIONS) / 2


def often_busy() -> Callable[[], bool]:
    """Says yes every third time it is asked."""
    asked = count(1)
    return lambda: next(asked) % 3 == 0


def length(solution: Solution) -> int:
    (sample,) = solution.samples
    assert isinstance(sample, Sample)
    return len(sample.rollout.tokens)


async def ask(solver: Solver, text: str, policy: ExitPolicy) -> tuple[Solution, Prepared]:
    prepared = solver.prepare(Question(text, 0.1, temperature=0.0))
    prepared = replace(prepared, terms=replace(prepared.terms, policy=policy))
    return await solver.run(prepared), prepared
