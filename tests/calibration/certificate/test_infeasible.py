"""What a certificate says of a level that no policy keeps: it agrees with itself, and is true."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration import (
    Certificate,
    Chain,
    ExitPolicy,
    InfeasibleAlpha,
    InfeasibleLevel,
    Promise,
    PValue,
    Traces,
    certify,
    family_of_chains,
    verify,
)
from calibration.certificate.evaluate import resolve_risk
from calibration.certificate.sequential import certify_sequential, sequential_design
from calibration.simulation.losses import Losses
from calibration.testing.p_values import (
    fewest_problems,
    fewest_units,
    p_values,
    smallest_certifiable,
    upper_bounds,
)
from tests.calibration.recordings import sure

POLICY = ExitPolicy(lambda_answer=0.4)
"""Its risk is 0.3 in the world of these tests."""
DELTA = 0.5


def fitted(traces: Traces, kind: PValue, *alphas: float, delta: float = DELTA) -> Certificate:
    """A certificate that tests this policy alone, at each level with all of delta."""
    family = family_of_chains([[Chain((POLICY,), 1.0)]] * len(alphas), "by hand")
    asked: dict[str, Any] = {"alphas": alphas, "delta": delta, "promise": Promise.POINTWISE}
    if kind is not PValue.ANYTIME:
        return certify(traces, family=family, p_value=kind, **asked)
    design = sequential_design(traces, traces.n_units, method="chains", **asked)
    return certify_sequential(traces, replace(design, tested=family))


def infeasible(made: Certificate) -> list[InfeasibleLevel]:
    return [level for level in made.levels if isinstance(level, InfeasibleLevel)]


@pytest.mark.parametrize("kind", [PValue.BINOMIAL, PValue.BETTING, PValue.ANYTIME])
def test_what_is_said_of_an_infeasible_level_agrees(world: Any, kind: PValue) -> None:
    """At the very risk of the policy, where bets are often won early and lost again."""
    rng = np.random.default_rng(11)
    above = 0
    for _ in range(25):
        traces = world.draw(rng, 100)
        made = fitted(traces, kind, 0.25, 0.3, 0.35)
        smallest = made.smallest_certifiable_alpha
        for level in infeasible(made):
            assert smallest > level.alpha
            if level.p_value <= DELTA:
                above += 1
                assert level.total_loss >= level.alpha * level.total_weight
                assert "above its own part of delta" not in level.reason
                assert f"is not below alpha = {level.alpha:g}" in level.reason
            with pytest.raises(InfeasibleAlpha) as raised:
                made.level_for(level.alpha)
            if smallest == 1:
                assert str(raised.value).endswith("these problems can certify no alpha")
            else:
                named = float(str(raised.value).rsplit(" ", 1)[1])
                assert smallest <= named <= 1.01 * smallest
        if smallest < 1 and kind is not PValue.ANYTIME:  # another design, so another order
            at = smallest * (1 + 1e-9) if kind is PValue.BINOMIAL else smallest
            assert fitted(traces, kind, at).levels[0].certified
        assert verify(made, traces) == []
    assert above > 0 or kind is not PValue.ANYTIME


@pytest.mark.parametrize("kind", PValue)
def test_the_smallest_certifiable_alpha_is_certified_and_above_the_risk(kind: PValue) -> None:
    rng = np.random.default_rng(12)
    loss_UT = (rng.random((60, 200)) < rng.choice([0.05, 0.3, 0.6, 1.0], 200)).astype(float)
    losses = Losses.unweighted(loss_UT)
    found_T = smallest_certifiable(losses, DELTA, kind)
    again_T = smallest_certifiable(losses, DELTA, kind, above=0.3)
    assert (again_T > 0.3).all()
    for policy in range(0, 200, 4):
        one = losses.select(np.array([policy]))
        for alpha in {found_T[policy], again_T[policy]} - {1.0}:
            at = alpha * (1 + 1e-9) if kind is PValue.BINOMIAL else alpha
            assert p_values(one, at, kind, target_level=DELTA)[0] <= DELTA
            assert one.risk_T[0] < at
    assert (found_T[losses.risk_T == 1] == 1).all()


@pytest.mark.parametrize("kind", [kind for kind in PValue if kind is not PValue.CLT])
@pytest.mark.parametrize(("alpha", "delta"), [(0.1, 0.1), (0.05, 0.03), (0.5, 0.2), (0.9, 0.1)])
def test_so_many_right_answers_are_enough_and_one_fewer_is_not(
    kind: PValue, alpha: float, delta: float
) -> None:
    enough = fewest_units(alpha, delta, kind)
    for n, certified in ((enough, True), (enough - 1, False)):
        right = Losses.unweighted(np.zeros((n, 1)))
        assert (p_values(right, alpha, kind, target_level=delta)[0] <= delta) is np.bool_(certified)


def test_so_many_that_nobody_can_play_them_out_are_counted_at_once() -> None:
    assert fewest_units(1e-6, 0.1, PValue.BETTING) == fewest_problems(1e-6, 0.1) > 2_000_000
    assert 3_000_000 < fewest_units(1e-6, 0.1, PValue.ANYTIME) < 4_000_000


@pytest.mark.parametrize("kind", [PValue.BETTING, PValue.ANYTIME])
def test_the_number_of_problems_that_a_level_needs_certifies_it(
    fingerprint: Any, kind: PValue
) -> None:
    few = fitted(sure(fingerprint, 21), kind, 0.1, 0.9, delta=0.1)
    (level,) = infeasible(few)
    needed = int(re.findall(r"needs at least (\d+) even if", level.reason)[0])
    assert needed == {PValue.BETTING: 22, PValue.ANYTIME: 32}[kind]
    assert fitted(sure(fingerprint, needed), kind, 0.1, delta=0.1).levels[0].certified
    fewer = fitted(sure(fingerprint, needed - 1), kind, 0.1, 0.9, delta=0.1)
    assert f"needs at least {needed}" in infeasible(fewer)[0].reason


def test_an_alpha_at_which_a_limit_fails_is_not_named(world: Any) -> None:
    """The policy keeps small alphas, and abstains more often than the limit allows."""
    traces = world.draw(np.random.default_rng(13), 200)
    family = family_of_chains([[Chain((POLICY,), 1.0)]], "by hand")
    made = certify(traces, alphas=(0.5,), family=family, bounds={"declined": 0.1})
    (level,) = infeasible(made)
    assert level.reason.startswith("limit too low")
    assert made.smallest_certifiable_alpha == 1.0
    assert verify(made, traces) == []


def test_a_bound_below_the_risk_that_an_earlier_version_wrote_still_verifies(world: Any) -> None:
    rng = np.random.default_rng(14)
    for _ in range(20):
        traces = world.draw(rng, 100)
        made = fitted(traces, PValue.ANYTIME, 0.3)
        losses = made.in_test_order(
            made.design.measure(traces, resolve_risk(made, None)).losses, traces
        )
        former = _former(made, losses)
        if former != made.smallest_certifiable_alpha:
            earlier = replace(made, smallest_certifiable_alpha=former)
            assert verify(Certificate.from_json(earlier.to_json()), traces) == []
            lower = replace(made, smallest_certifiable_alpha=former * 0.98)
            assert len(verify(lower, traces)) == 1
            return
    pytest.fail("no draw had one")


def _former(made: Certificate, losses: Losses) -> float:
    certified = [level.alpha for level in made.levels if level.certified]
    return min([*certified, float(upper_bounds(losses, DELTA, made.p_value)[0])])
