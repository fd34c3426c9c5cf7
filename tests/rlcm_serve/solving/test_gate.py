"""Questions that are unlike the calibration's: answered or declined, never under a guarantee."""

from dataclasses import replace

import pytest

from calibration import ExitPolicy
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import CancelledSample, OnUnfamiliar, Question
from rlcm_serve.errors import CertificateMismatch
from rlcm_serve.events import Event, SampleEvent
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Prepared, Solver
from tests.rlcm_serve.scripted_engine import (
    FAMILIARITY_CUTOFF,
    GATED_IDENTITY,
    IDENTITY,
    Script,
    ScriptedEngine,
    certificate,
)

POLICY = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)
QUESTION = Question("What is the capital of France?", alpha=0.1)
HIGH = Script(confidences=(0.5, 0.95), forced="19} so")


def gated(grader: AnswerGrader, p_value: float, *scripts: Script) -> Solver:
    engine = ScriptedEngine(*scripts)
    engine.reads_familiarity(p_value)
    made = certificate(
        {0.1: POLICY}, fingerprint=fingerprint_of(GATED_IDENTITY, samples=len(scripts))
    )
    return Solver(engine, Guarantees([GATED_IDENTITY], [made]), grader)


async def test_a_familiar_question_keeps_its_guarantee(grader: AnswerGrader) -> None:
    solution = await gated(grader, 0.0041, HIGH).solve(QUESTION)
    assert (solution.answer, solution.familiarity) == ("19", 0.0041)
    assert solution.guarantee is not None
    assert solution.no_guarantee_reason is None
    assert (
        "This covers first asks of questions like the calibration's" in solution.guarantee.statement
    )
    assert len(solution.guarantee.statement.split()) <= 40
    assert any("flags as unlike" in one for one in solution.guarantee.does_not_cover)


async def test_an_unfamiliar_question_is_answered_without_a_guarantee(
    grader: AnswerGrader,
) -> None:
    solution = await gated(grader, FAMILIARITY_CUTOFF, HIGH).solve(QUESTION)
    assert (solution.answer, solution.familiarity) == ("19", FAMILIARITY_CUTOFF)
    assert solution.guarantee is solution.expectation is None
    assert solution.no_guarantee_reason == (
        "the question is unlike the calibration problems: its familiarity is 0.004, and questions "
        "with at most 0.004 get no guarantee"
    )
    assert solution.policy == POLICY, "it is answered under the same policy"


async def test_an_unfamiliar_question_is_declined_if_asked_for(grader: AnswerGrader) -> None:
    solver = gated(grader, 0.001, Script(stays=True), Script(stays=True))
    question = replace(QUESTION, samples=2, on_unfamiliar=OnUnfamiliar.ABSTAIN)
    events: list[Event] = []
    solution = await solver.solve(question, events.append)
    assert solution.abstained
    assert solution.guarantee is None
    assert "it was not answered, as on_unfamiliar requests" in (solution.no_guarantee_reason or "")
    assert solution.samples == (CancelledSample(0), CancelledSample(0))
    assert [event.sample for event in events if isinstance(event, SampleEvent)] == [0, 1]
    assert solver.engine.in_flight == 0, "nothing is left in the engine"


async def test_on_unfamiliar_changes_nothing_for_a_familiar_question(
    grader: AnswerGrader,
) -> None:
    question = replace(QUESTION, on_unfamiliar=OnUnfamiliar.ABSTAIN)
    solution = await gated(grader, 0.5, HIGH).solve(question)
    assert solution.answer == "19"
    assert solution.guarantee is not None


async def test_both_reasons_against_a_guarantee_are_given(grader: AnswerGrader) -> None:
    solution = await gated(grader, 0.001, HIGH).solve(replace(QUESTION, seed=3))
    reason = solution.no_guarantee_reason or ""
    assert "seed is 3" in reason
    assert "unlike the calibration problems" in reason


async def test_an_engine_that_does_not_read_what_it_should_gives_no_guarantee(
    grader: AnswerGrader,
) -> None:
    solver = gated(grader, 0.5, HIGH)
    assert isinstance(solver.engine, ScriptedEngine)
    solver.engine.familiarity = None
    solution = await solver.solve(QUESTION)
    assert solution.guarantee is None
    assert "did not read" in (solution.no_guarantee_reason or "")


async def test_a_start_is_told_once_and_with_the_final_terms(grader: AnswerGrader) -> None:
    solver = gated(grader, 0.001, HIGH, HIGH)
    told: list[Prepared | Event] = []
    prepared = solver.prepare(replace(QUESTION, samples=2))
    assert prepared.terms.guarantee is not None, "not yet known"
    solution = await solver.run(prepared, told.append, on_start=told.append)
    start, *events = told
    assert isinstance(start, Prepared)
    assert start.terms.guarantee is None
    assert start.terms.no_guarantee_reason == solution.no_guarantee_reason
    assert not any(isinstance(event, Prepared) for event in events)


async def test_without_a_reading_the_start_is_told_at_once(grader: AnswerGrader) -> None:
    told: list[Prepared | Event] = []
    solver = Solver(
        ScriptedEngine(HIGH), Guarantees([IDENTITY], [certificate({0.1: POLICY})]), grader
    )
    solution = await solver.run(solver.prepare(QUESTION), told.append, on_start=told.append)
    assert isinstance(told[0], Prepared)
    assert solution.familiarity is None
    assert solution.guarantee is not None


@pytest.mark.parametrize("change", [{"familiarity": "f1"}, {"familiarity_cutoff": 0.1}])
def test_a_certificate_for_another_reading_is_refused(change: dict[str, object]) -> None:
    made = certificate({0.1: POLICY}, fingerprint=fingerprint_of(GATED_IDENTITY))
    with pytest.raises(CertificateMismatch, match=next(iter(change))):
        Guarantees([replace(GATED_IDENTITY, **change)], [made])  # type: ignore[arg-type]


def test_a_certificate_without_the_reading_is_refused() -> None:
    with pytest.raises(CertificateMismatch, match="familiarity"):
        Guarantees([GATED_IDENTITY], [certificate({0.1: POLICY})])
