"""The levels of a certificate, from what its tests say: figures, or the reason for having none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibration.certificate.fitting.tested import Tested, explaining_policy
from calibration.certificate.levels import CertifiedLevel, InfeasibleLevel, Level
from calibration.simulation.groups import Groups
from calibration.simulation.losses import Losses
from calibration.simulation.replay import Replay
from calibration.testing.families import Correction, Family
from calibration.testing.learned_path import choose_certified
from calibration.testing.p_values import (
    PValue,
    clopper_pearson_upper,
    fewest_units,
    p_values,
    smallest_certifiable,
    upper_bounds,
)
from calibration.testing.side_risks import SideRisks


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The data from which the levels are written."""

    family: Family
    measured: Replay
    tested: Tested
    kind: PValue
    seed: int
    delta: float
    level_delta: float
    token_price: float | None
    groups: Groups | None
    sides: SideRisks | None = None

    def served(self, level: int) -> int | None:
        """The policy to serve at a level; None if no certified one keeps all limits."""
        certified_T = self.tested.certified_LT[level]
        if self.sides is not None:
            certified_T = certified_T & self.sides.allowed_T
        return choose_certified(self.measured, certified_T, self.token_price)

    @property
    def counted(self) -> str:
        """What a weight of 1 stands for."""
        if self.groups is None:
            return "problems"
        if self.groups.by_size:
            return f"groups of full size ({self.groups.max_size} problems)"
        return "groups"

    @property
    def full_weight(self) -> float:
        """The total weight if every question counts."""
        n_units, groups = self.measured.losses.n_units, self.groups
        return groups.full_weight(self.measured.n_problems, n_units) if groups else float(n_units)


def level_of(fit: Fit, level: int, alpha: float, served: int | None) -> Level:
    """A level, from the number of the policy that is served at it; None if there is none."""
    if served is None:
        return _infeasible(fit, level, alpha)
    return _certified(fit, level, alpha, served)


def _certified(fit: Fit, level: int, alpha: float, chosen: int) -> CertifiedLevel:
    """A level and the figures of the policy that is served at it, on the problems of the test."""
    losses, p_T = fit.measured.losses, fit.tested.p_LT[level]
    # Bonferroni over the tested policies, which were fixed before: the bounds hold simultaneously.
    (upper,) = upper_bounds(
        losses.select(np.array([chosen])), fit.delta / losses.n_policies, fit.kind, fit.seed
    )
    return CertifiedLevel(
        alpha=alpha,
        policy=fit.family.policies[chosen],
        p_value=float(p_T[chosen]),
        risk=float(losses.risk_T[chosen]),
        risk_upper=max(float(upper), float(losses.risk_T[chosen])),
        total_weight=float(losses.total_weight_T[chosen]),
        total_loss=float(losses.total_loss_T[chosen]),
        share_answered=float(fit.measured.answered_T[chosen]),
        share_right=float(fit.measured.right_T[chosen]),
        expected_tokens=float(fit.measured.tokens_T[chosen]),
        full_budget_tokens=fit.measured.full_tokens,
    )


def _infeasible(fit: Fit, level: int, alpha: float) -> InfeasibleLevel:
    """A level at which no policy is served, and why: too few problems, or too high a risk."""
    shown = explaining_policy(fit.family, fit.tested, level)
    losses = fit.measured.losses.select(np.array([shown]))
    p_value = float(fit.tested.p_LT[level, shown])
    certified_T = fit.tested.certified_LT[level]
    if fit.sides is not None and certified_T.any():
        n_too_small, why = fit.sides.why_none(certified_T)
        high, remedy = "limit too low", "choose a larger alpha or limit"
    else:
        _, share = fit.family.first(level)
        n_too_small, why = _why_not(fit, losses, alpha, share * fit.level_delta, p_value)
        high, remedy = "risk too high", "choose a larger alpha, or use a better model or probe"
    if n_too_small:
        more = "record more problems"
        is_low = losses.total_loss_T[0] < alpha * losses.total_weight_T[0]
        high, remedy = "too few problems", more if is_low else f"{more}, or choose a larger alpha"
    return InfeasibleLevel(
        alpha=alpha,
        n_too_small=n_too_small,
        reason=f"{high}: {why}; {remedy}",
        p_value=p_value,
        total_weight=float(losses.total_weight_T[0]),
        total_loss=float(losses.total_loss_T[0]),
    )


def _why_not(
    fit: Fit, losses: Losses, alpha: float, level_delta: float, p_value: float
) -> tuple[bool, str]:
    """Why a policy is not certified at alpha, and whether more problems may change that.

    Args:
        fit: the fit.
        losses: of this policy alone.
        alpha: the risk to reject.
        level_delta: the part of delta that its test starts with. What levels or chains that are
            passed leave to it comes on top.
        p_value: what it is.
    """
    weight, loss = float(losses.total_weight_T[0]), float(losses.total_loss_T[0])
    ordered = fit.family.correction is Correction.GRAPH
    policy = "the policy tested first" if ordered else "the policy with the smallest p-value"
    if weight == 0:
        # More problems only help if answering more of them would keep the risk.
        return 1 - fit.measured.full_right < alpha, (
            f"{policy} answers none of {fit.measured.n_problems} calibration problems"
        )
    without_loss = replace(losses, loss_UT=np.zeros_like(losses.loss_UT))
    (best,) = p_values(without_loss, alpha, fit.kind, fit.seed, level_delta)
    # With Clopper-Pearson's bound below the risk above alpha, no number of problems would help.
    n_too_small = 1 - float(clopper_pearson_upper(weight - loss, weight, fit.delta)) <= alpha
    # Where labels are drawn, what bets can win depends on which units have one.
    needed = 0 if losses.drawn is not None else fewest_units(alpha, level_delta, fit.kind)
    if best > level_delta and weight < needed and n_too_small:
        return n_too_small, (
            f"{policy} is measured on {weight:.5g} of {fit.full_weight:.5g} calibration "
            f"{fit.counted}, with a total loss of {loss:.5g}; with its own part of delta, "
            f"{level_delta:.3g}, alpha = {alpha:g} needs at least {needed} even if no answer is "
            "wrong"
        )
    measured = f"{policy} has a total loss of {loss:.5g} on {weight:.5g} {fit.counted}"
    if p_value <= level_delta:
        # Bets were won on the first units and lost again on the others.
        share = loss / weight
        return n_too_small, f"{measured}: the share {share:.3g} is not below alpha = {alpha:g}"
    return n_too_small, (
        f"{measured}; its p-value is {p_value:.3g}, above its own part of delta, {level_delta:.3g}"
    )


def smallest_alpha(fit: Fit, levels: Sequence[Level]) -> float:
    """The smallest certified alpha or, if lower, one at which a level's first policy would be."""

    def of_first(number: int, level: Level) -> float:
        first, share = fit.family.first(number)
        if fit.sides is not None and not fit.sides.allowed_T[first]:
            return 1.0
        losses = fit.measured.losses.select(np.array([first]))
        refused = 0.0 if level.certified else level.alpha
        (alpha,) = smallest_certifiable(
            losses, share * fit.level_delta, fit.kind, fit.seed, above=refused
        )
        return float(alpha)

    certified = [level.alpha for level in levels if level.certified]
    return min(certified + [of_first(*one) for one in enumerate(levels)])


def method_of(family: Family, kind: PValue) -> str:
    """The tests and the source of the policies, as text for the certificate."""
    test = {
        PValue.BINOMIAL: "exact binomial tests (for `selective`, given the questions answered)",
        PValue.BETTING: "betting tests (arXiv 2010.09686)",
        PValue.ANYTIME: "betting tests that are valid at all times (arXiv 2009.03167)",
        PValue.HOEFFDING_BENTKUS: "Hoeffding-Bentkus tests (arXiv 2110.01052)",
        PValue.CLT: "normal approximations (asymptotic: valid only in the limit of many problems)",
    }[kind]
    return f"Learn-then-Test: {test}; {family.source}"
