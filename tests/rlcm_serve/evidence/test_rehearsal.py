"""A rehearsed certificate replayed on the readings of one live answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calibration import Certificate, ExitPolicy, ExitReason
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import (
    CancelledSample,
    Message,
    Question,
    Reading,
    Role,
    Sample,
    Solution,
    VoteRule,
)
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.evidence.live_replay import replay_records
from rlcm_serve.evidence.records import Answered, new_id
from rlcm_serve.evidence.rehearsal import Replayed, replayed
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.gate import FamiliarityGate
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Prepared, Solver
from tests.rlcm_serve.evidence.test_live_replay import SURE, answered, kept, sample
from tests.rlcm_serve.scripted_engine import (
    BUDGET,
    FAMILIARITY_CUTOFF,
    GATED_IDENTITY,
    IDENTITY,
    ScriptedEngine,
    certificate,
)
from tests.rlcm_serve.solving.test_kinds import POOLED

QUESTION = Question("A dial shows 3.", 0.1)
ONE = certificate({0.1: SURE})


def prepared(
    question: Question, grader: AnswerGrader, *made: Certificate, identity: EngineIdentity
) -> Prepared:
    engine = ScriptedEngine()
    engine.identity = identity
    return Solver(engine, Guarantees([identity], made), grader).prepare(question)


def solution(*samples: Sample | CancelledSample) -> Solution:
    return replace(answered(sample(ExitReason.NATURAL, 0.5)).solution, samples=samples)


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (QUESTION, ONE),
        (replace(QUESTION, max_tokens=BUDGET), ONE),
        (replace(QUESTION, temperature=0.8, top_p=1.0), ONE),
        (replace(QUESTION, vote=VoteRule.MAJORITY), ONE),
        (replace(QUESTION, temperature=0.5), ONE),
        (replace(QUESTION, seed=7), ONE),
        (replace(QUESTION, max_tokens=48), ONE),
        (
            QUESTION,
            certificate({0.1: SURE}, fingerprint=fingerprint_of(IDENTITY, max_tokens=48)),
        ),
        (replace(QUESTION, schema="{}"), ONE),
        (replace(QUESTION, context=(Message(Role.SYSTEM, "Be brief."),)), ONE),
        (
            replace(
                QUESTION, context=(Message(Role.USER, "Hi."), Message(Role.ASSISTANT, "Hello."))
            ),
            ONE,
        ),
        (replace(QUESTION, kind="prose"), POOLED),
        (replace(QUESTION, kind="logic"), POOLED),
    ],
)
def test_what_counts_is_what_would_have_the_guarantee(
    asked: Question, made: Certificate, grader: AnswerGrader, tmp_path: Path
) -> None:
    """In a rehearsal, and in a replay of records."""
    ready = prepared(asked, grader, made, identity=IDENTITY)
    check_counts(ready, made, 0.5, tmp_path)


@pytest.mark.parametrize("familiarity", [FAMILIARITY_CUTOFF, 2 * FAMILIARITY_CUTOFF, None])
def test_unfamiliar_questions_do_not_count(
    familiarity: float | None, grader: AnswerGrader, tmp_path: Path
) -> None:
    made = certificate({0.1: SURE}, fingerprint=fingerprint_of(GATED_IDENTITY))
    ready = prepared(QUESTION, grader, made, identity=GATED_IDENTITY)
    check_counts(ready, made, familiarity, tmp_path)


def check_counts(
    ready: Prepared, made: Certificate, familiarity: float | None, folder: Path
) -> None:
    """Whether an answer counts for the certificate, live and recorded, as its guarantee says."""
    identity = ready.reasoner.identity
    gate = FamiliarityGate(identity, QUESTION.on_unfamiliar, familiarity=familiarity)
    given = replace(solution(sample(ExitReason.BUDGET, 0.3, 0.95)), familiarity=familiarity)
    is_covered = gate.apply(ready.terms).guarantee is not None
    assert bool(replayed(made, ready, given)) == is_covered
    engine, departures = fingerprint_of(identity), ready.terms.asked.departures
    kept(folder, Answered(new_id(), None, ready.question, given, None, engine, departures))
    found = replay_records(made, folder)
    assert (found.levels[0].questions, found.others) == (int(is_covered), int(not is_covered))


def test_an_answer_without_a_sample_does_not_count(grader: AnswerGrader, tmp_path: Path) -> None:
    ready = prepared(QUESTION, grader, ONE, identity=IDENTITY)
    assert replayed(ONE, ready, solution()) == []
    engine = fingerprint_of(IDENTITY)
    kept(tmp_path, Answered(new_id(), None, QUESTION, solution(), None, engine))
    assert replay_records(ONE, tmp_path).others == 1


def of_samples(
    grader: AnswerGrader, policy: ExitPolicy, *samples: Sample | CancelledSample
) -> Replayed:
    """What a level for as many samples would have done with an answer."""
    made = certificate({0.1: policy}, fingerprint=fingerprint_of(IDENTITY, len(samples)))
    question = replace(QUESTION, samples=len(samples))
    ready = prepared(question, grader, identity=IDENTITY)
    (level,) = replayed(made, ready, solution(*samples))
    return level


def test_a_sample_that_was_cancelled_while_it_answered_has_ended(grader: AnswerGrader) -> None:
    """Its five tokens of an answer are no reasoning, and its last reading is no checkpoint."""
    one = sample(ExitReason.NATURAL, 0.3, 0.95)
    ended = one.rollout
    cancelled = CancelledSample(37, ended.readings, ended.tokens, ended)
    found = of_samples(grader, SURE, one, cancelled)
    assert (found.tokens, found.tokens_at_least, found.undecided) == (64, 64, False)


def test_a_sample_that_was_cancelled_while_it_thought_is_as_long_as_its_reasoning(
    grader: AnswerGrader,
) -> None:
    one = sample(ExitReason.NATURAL, 0.3, 0.95)
    cancelled = CancelledSample(21, (Reading(16, 0.3),), (1,) * 20)
    found = of_samples(grader, SURE, one, cancelled)
    assert (found.tokens, found.tokens_at_least, found.undecided) == (52, 52, True)
