"""Jobs that fit a certificate again after its guarantee was withdrawn."""

from dataclasses import replace

import pytest

from calibration import ExitPolicy, Promise
from calibration.simulation.groups import Average, Groups
from rlcm_serve.core import RiskName, VoteRule
from rlcm_serve.errors import RequestRefused
from rlcm_serve.jobs.replacement import as_before
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import CalibrationRequest, JobState
from tests.rlcm_serve.jobs.problem_engine import problems
from tests.rlcm_serve.jobs.test_calibration_jobs import running
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate
from tests.rlcm_serve.store.test_restoring import withdraw

FIRST, SECOND = problems(60)[:20], problems(60)[20:]


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
