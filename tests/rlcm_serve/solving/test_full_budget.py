"""Shadow runs: what a question would have been answered at the full budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Completion, Question, Reading, Rollout, Sample
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.shadow.full_budget import full_answer
from rlcm_serve.solving.solver import Solver
from tests.rlcm_serve.scripted_engine import IDENTITY, ScriptedEngine

DECLINES = ExitPolicy(lambda_low=-1, lambda_high=1.01, lambda_answer=0.95)


@pytest.mark.parametrize(("policy", "answer"), [(FULL_BUDGET, None), (DECLINES, "42")])
async def test_an_answer_that_could_not_be_read_is_not_drawn_again(
    monkeypatch: pytest.MonkeyPatch, policy: ExitPolicy, answer: str | None
) -> None:
    """Only a sample that was not asked for its answer is asked now."""
    engine = ScriptedEngine()
    asked = 0

    async def forced(*_: Any, **__: Any) -> tuple[Completion, ...]:
        nonlocal asked
        asked += 1
        return (Completion("42}", 3),)

    monkeypatch.setattr(engine, "continue_after", forced)
    ended = Rollout((1, 2, 3), "", ExitReason.NATURAL, (Reading(3, 0.9, is_final=True),))
    with AnswerGrader() as grader:
        solver = Solver(engine, Guarantees([IDENTITY], []), grader)
        prepared = solver.prepare(Question("?", 0.1))
        prepared = replace(prepared, terms=replace(prepared.terms, policy=policy))
        solution = replace(await solver.run(prepared), policy=policy)
        solution = replace(solution, samples=(Sample(ended, None, 8, forced=True),))
        asked = 0
        found = await full_answer(prepared, solution, solver.verdicts(prepared), lambda: False)
    assert (found.answer, found.tokens) == (answer, 0)
    assert asked == (answer is not None)
