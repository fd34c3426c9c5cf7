"""What holds jointly with the levels: with probability 1 - delta, all of it at once.

The risks of all policies are known. A fit errs if a bound is below its risk, if a policy that
breaks a limit is allowed, or if more of the next questions go wrong than it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from calibration import Certificate, CertifiedLevel, Chain, ExitPolicy, PValue, Traces, certify
from calibration.simulation.losses import Losses
from calibration.testing.chains import family_of_chains
from calibration.testing.joint import SideBound, allowed, bound_of
from calibration.testing.p_values import p_values
from tests.statistical.design import fewest_errors, most_errors
from tests.statistical.one_reading import one_reading
from tests.statistical.policies import DELTA
from tests.statistical.report import FITS

CELLS, POLICIES, UNITS = 20, 30, 200
LIMIT = 0.4
DECLINED = SideBound("declined", LIMIT)

pytestmark = pytest.mark.slow


@pytest.fixture(params=[200, pytest.param(FITS, marks=pytest.mark.statistical)])
def fits(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def losses_of(rng: np.random.Generator, kind: PValue, risk: float = LIMIT * (1 + 1e-9)) -> Losses:
    """Independent policies of one risk: the less they depend, the more there is to find."""
    # Betting tests take a hundred times as long.
    shape = (UNITS, POLICIES, 1) if kind is PValue.BINOMIAL else (60, 8, 2)
    wrong = rng.random(shape) < risk
    return Losses.unweighted(wrong.mean(axis=2))


Allowed = Callable[[Losses, PValue], NDArray[np.bool_]]


def as_shipped(losses: Losses, kind: PValue) -> NDArray[np.bool_]:
    return allowed(DECLINED, losses, kind, DELTA, seed=1)


def each_alone(losses: Losses, kind: PValue) -> NDArray[np.bool_]:
    """Broken: every policy is tested as if it were the only one."""
    return p_values(losses, LIMIT, kind, 1, DELTA) <= DELTA


@pytest.mark.parametrize("kind", [PValue.BINOMIAL, PValue.BETTING])
@pytest.mark.parametrize("rule", [as_shipped, each_alone])
def test_no_policy_that_breaks_a_limit_is_allowed(kind: PValue, rule: Allowed, fits: int) -> None:
    rng = np.random.default_rng(5)
    found = sum(rule(losses_of(rng, kind), kind).any() for _ in range(fits))
    if rule is each_alone:
        assert found > 1.5 * most_errors(fits, DELTA, CELLS)
    else:
        assert found <= most_errors(fits, DELTA, CELLS)
        if kind is PValue.BINOMIAL:
            assert found >= fewest_errors(fits, 0.3 * DELTA, CELLS)


@pytest.mark.parametrize("n_policies", [POLICIES, 1], ids=["of all", "broken: of one"])
def test_the_bound_of_whatever_policy_is_above_its_risk(n_policies: int, fits: int) -> None:
    """The served policy is here the one whose bound is the lowest."""
    rng, measured = np.random.default_rng(6), replace(DECLINED, at_most=None)
    found = 0
    for _ in range(fits):
        losses = losses_of(rng, PValue.BINOMIAL)
        least = losses.select(np.array([losses.total_loss_T.argmin()]))
        found += bound_of(measured, least, n_policies, PValue.BINOMIAL, DELTA, 1) < LIMIT
    most = most_errors(fits, DELTA, CELLS)
    assert (found <= most) if n_policies == POLICIES else (found > 3 * most)


ALPHA, NEXT = 0.2, 2000
LAX, STRICT = ExitPolicy(lambda_answer=0.0), ExitPolicy(lambda_answer=0.5)
RISKS = {STRICT: (0.5, 0.13), LAX: (0.0, 0.19)}
"""Share declined, and share wrong of the answered: both policies keep alpha, one barely."""


def draw(rng: np.random.Generator, n: int) -> Traces:
    """Confidences of .9 and .1, each half of the time; .13 and .25 of their answers are wrong."""
    sure_P = rng.random(n) < 0.5
    wrong_P = rng.random(n) < np.where(sure_P, 0.13, 0.25)
    return one_reading(wrong_P, np.where(sure_P, 0.9, 0.1))


def fit(traces: Traces) -> Certificate:
    return certify(
        traces,
        alphas=(ALPHA,),
        delta=DELTA,
        family=family_of_chains([[Chain((STRICT, LAX), 1.0)]], "two policies"),
        bounds={"declined": None},
        next_questions=NEXT,
    )


def as_certified(made: Certificate, level: CertifiedLevel) -> int:
    assert made.joint is not None
    assert made.joint.next is not None
    (most,) = made.joint.next.most
    assert most is not None
    return most


def as_measured(made: Certificate, level: CertifiedLevel) -> int:
    """Broken: as if the risk measured in the calibration were the risk."""
    assert made.joint is not None
    return int(stats.binom.isf(made.joint.statement_delta, NEXT, level.risk))


@pytest.mark.parametrize("most_of", [as_certified, as_measured])
def test_everything_holds_at_once(
    most_of: Callable[[Certificate, CertifiedLevel], int], fits: int
) -> None:
    rng = np.random.default_rng(7)
    failed = certified = 0
    for _ in range(fits):
        made = fit(draw(rng, 150))
        (level,) = made.levels
        if not isinstance(level, CertifiedLevel):
            continue
        certified += 1
        assert made.joint is not None
        declined, risk = RISKS[level.policy]
        (upper,) = made.joint.bounds[0].bounds
        gone_wrong = rng.binomial(NEXT, risk)
        failed += risk > ALPHA or (upper or 0.0) < declined or gone_wrong > most_of(made, level)
    assert certified > fits / 10
    if most_of is as_certified:
        assert failed <= most_errors(fits, DELTA, CELLS)
    else:
        assert failed > 1.3 * most_errors(fits, DELTA, CELLS)
