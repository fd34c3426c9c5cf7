"""Jobs that fit a certificate again after its guarantee was withdrawn."""

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from calibration import ExitPolicy, Promise
from calibration.simulation.groups import Average, Groups
from rlcm_serve.core import RiskName, VoteRule
from rlcm_serve.errors import RequestRefused
from rlcm_serve.jobs.replacement import as_before
from rlcm_serve.monitoring.records import Label
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.caller import ANYONE
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import CalibrationRequest, JobState
from tests.rlcm_serve.jobs.problem_engine import problems
from tests.rlcm_serve.jobs.test_calibration_jobs import running
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate
from tests.rlcm_serve.store.test_answers import DRAW
from tests.rlcm_serve.store.test_restoring import withdraw

FIRST, SECOND = problems(60)[:20], problems(60)[20:]


def audit(database: Database, asked: Sequence[LabelledProblem]) -> None:
    """Stores an audited answer to each problem, with a label that has its reference."""
    stored = StoredAnswers(database, DRAW, texts=True)
    now = time.time()
    answers = [
        replace(
            answer(0), id=one.id, question=one.problem, profile="default", started=now, time=now
        )
        for one in asked
    ]
    stored.add(answers)
    labels = [Label(one.id, True, None, one.answer) for one in asked]
    stored.label(labels, ANYONE)


def test_a_job_asks_for_what_the_certificate_was_fitted_with() -> None:
    fingerprint = fingerprint_of(IDENTITY, samples=4, vote=VoteRule.MAJORITY)
    policies = {0.1: ExitPolicy(lambda_high=0.9), 0.05: None}
    made = certificate(policies, fingerprint=fingerprint, promise=Promise.POINTWISE, risk="error")
    made = replace(made, groups=Groups(Average.PROBLEMS, 3), n_rollouts=8 * made.n_problems)
    assert as_before(made, "default", 0.05) == CalibrationRequest(
        risk=RiskName.ERROR,
        alphas=(0.05, 0.1),
        delta=0.05,
        promise=Promise.POINTWISE,
        samples=4,
        vote=VoteRule.MAJORITY,
        rollouts=8,
        activate=True,
        max_group_size=3,
        replaces=made.id,
    )


def test_a_loss_of_ones_own_is_refused() -> None:
    made = certificate({0.1: ExitPolicy(lambda_high=0.9)}, risk="time lost")
    with pytest.raises(RequestRefused, match="a certificate for the loss 'time lost'"):
        as_before(made, "default", 0.05)


@pytest.mark.slow
async def test_a_withdrawn_certificate_is_fitted_again_and_replaced(database: Database) -> None:
    async with running(database) as here:
        asked = CalibrationRequest(alphas=(0.2,), delta=0.2, activate=True)
        first = await here.run(asked, FIRST)
        assert first.state is JobState.DONE
        old = here.store.get(str(first.certificate))
        again = CalibrationRequest(replaces=old.id)
        with pytest.raises(RequestRefused, match="was not withdrawn"):
            await here.jobs.submit(again, SECOND)
        withdraw(database, old)
        second = await here.run(again, SECOND)
        assert (second.state, second.error) == (JobState.DONE, None)
        new = here.store.get(str(second.certificate))
        assert (new.delta, new.risk) == (pytest.approx(0.1), old.risk)
        assert [active.id for active in here.service.guarantees.certificates] == [new.id]


@pytest.mark.slow
async def test_without_problems_a_job_takes_the_audited_questions_since_the_withdrawal(
    database: Database,
) -> None:
    async with running(database) as here:
        asked = CalibrationRequest(alphas=(0.2,), delta=0.2, activate=True)
        first = await here.run(asked, FIRST)
        old = here.store.get(str(first.certificate))
        audit(database, FIRST)
        withdraw(database, old)
        with pytest.raises(RequestRefused, match="no audited question since the withdrawal"):
            await here.jobs.submit(CalibrationRequest(replaces=old.id), None)
        audit(database, SECOND)
        second = await here.run(CalibrationRequest(replaces=old.id), None)
        assert (second.state, second.error) == (JobState.DONE, None)
        assert [one.problem for one in here.jobs.store.problems(second)] == [
            one.problem for one in SECOND
        ]


async def test_a_certificate_of_another_budget_than_the_profiles_is_not_fitted_again_at_that(
    database: Database,
) -> None:
    async with running(database) as here:
        fitted = fingerprint_of(here.service.engine.identity)
        budget = fitted.max_tokens // 2
        shorter = replace(fitted, max_tokens=budget)
        old = certificate({0.2: ExitPolicy(lambda_high=0.9)}, fingerprint=shorter)
        here.store.add(old, "uploaded")
        here.service.use(here.store.activate([old.id], here.service.guarantees.identities))
        withdraw(database, old)
        with pytest.raises(RequestRefused, match=f"`rlcm collect --max-tokens {budget}`"):
            await here.jobs.submit(CalibrationRequest(replaces=old.id), SECOND)
