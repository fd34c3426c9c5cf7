"""Which policies of a design pass their tests at which level."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.simulation.losses import Losses
from calibration.testing.families import Correction, Family
from calibration.testing.fwer import Promise, bonferroni, certify_levels, delta_per_level, holm
from calibration.testing.p_values import PValue, p_value_table


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """P-values and verdicts: risk levels (L, by rising alpha) x policies (T)."""

    p_LT: NDArray[np.float64]
    certified_LT: NDArray[np.bool_]


def certify_policies(
    losses: Losses,
    family: Family,
    alphas: Sequence[float],
    delta: float,
    promise: Promise,
    kind: PValue,
    seed: int = 0,
) -> Tested:
    """Which policies of a family are certified at which alpha.

    The probability that any certified policy has a risk above its alpha is at most delta: over all
    levels (simultaneous), or at each level (pointwise). This holds for any dependence between the
    policies. It does not cover a family that was chosen by the labels behind `losses`.

    Args:
        losses: losses of the family's policies, in its order.
        family: the policies and the structure of the tests.
        alphas: risk levels, rising.
        delta: the probability with which the guarantee may fail.
        promise: simultaneous or pointwise.
        kind: the test.
        seed: shuffles the units for the betting test: `Traces.seed`.
    """
    _check_weights(family, len(alphas))
    target_LT = np.empty((len(alphas), losses.n_policies))
    target_LT.T[:] = [
        target_level(family, level, alphas, delta, promise) for level in range(len(alphas))
    ]
    p_LT = p_value_table(losses, alphas, kind, seed, target_LT)
    certified_LT = _rejected(_evidence(p_LT, losses, alphas), family, alphas, delta, promise)
    # By implication from a smaller alpha, a level may inherit a policy that its own data question.
    return Tested(p_LT, certified_LT & (p_LT <= delta))


def _evidence(
    p_LT: NDArray[np.float64], losses: Losses, alphas: Sequence[float]
) -> NDArray[np.float64]:
    """The p-values to test with: 1 where the risk on these very problems is not below alpha.

    A betting test takes the wealth at its peak, and may reject although the losses that came later
    are against it. A larger p-value is as valid.
    """
    return np.where(losses.risk_T < np.asarray(alphas)[:, None], p_LT, 1.0)


def _rejected(
    p_LT: NDArray[np.float64],
    family: Family,
    alphas: Sequence[float],
    delta: float,
    promise: Promise,
) -> NDArray[np.bool_]:
    """Which policies pass at which level, by the structure of the family."""
    if family.correction is Correction.GRAPH:
        if family.weights_LT is None or family.graph is None:
            raise CalibrationError(
                "a family tested by a graph needs weights and a graph: give both"
            )
        return certify_levels(
            p_LT, np.array(alphas), np.array(family.weights_LT), family.graph, delta, promise
        )
    correct = bonferroni if family.correction is Correction.BONFERRONI else holm
    if promise is Promise.SIMULTANEOUS:
        certified_LT = correct(p_LT.ravel(), delta).reshape(p_LT.shape)
        # A risk of at most alpha is also at most any larger alpha.
        return np.logical_or.accumulate(certified_LT, axis=0)
    return np.stack([correct(p_T, delta) for p_T in p_LT])


def target_level(
    family: Family, level: int, alphas: Sequence[float], delta: float, promise: Promise
) -> float:
    """The share of delta of a level's first test; betting tests have the most power there."""
    _, share = family.first(level)
    return share * delta_per_level(delta, alphas, promise)


def explaining_policy(family: Family, tested: Tested, level: int) -> int:
    """The policy that explains an infeasible level: the first, or without order the closest."""
    if family.correction is Correction.GRAPH:
        first, _ = family.first(level)
        return first
    return int(tested.p_LT[level].argmin())


def _check_weights(family: Family, n_levels: int) -> None:
    """Checks that each level has its weights; their values are checked where they are used."""
    if family.weights_LT is None:
        return
    lengths = [len(weights_T) for weights_T in family.weights_LT]
    if lengths != [len(family.policies)] * n_levels:
        raise CalibrationError(
            f"the family has rows of {lengths} weights for {n_levels} alphas and "
            f"{len(family.policies)} policies: give one row per alpha, by rising alpha, with one "
            "weight per policy"
        )
    for number, weights_T in enumerate(family.weights_LT, 1):
        if not any(weights_T):
            raise CalibrationError(
                f"all weights of alpha number {number} are 0: give at least one of its policies a "
                "part of delta"
            )
