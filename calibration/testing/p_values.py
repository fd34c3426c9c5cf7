"""Tests of H: risk > alpha on independent losses, and the confidence bounds that invert them.

All tests are about the mean of X = loss - alpha * weight + alpha. X is in [0, 1], and its mean is
at most alpha if and only if the risk E[loss] / E[weight] is at most alpha.
"""

import math
import sys
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibration.errors import CalibrationError
from calibration.simulation.losses import Losses
from calibration.testing.anytime import anytime_p_values, anytime_p_values_over, fewest_right
from calibration.testing.betting import betting_p_values, betting_p_values_over

TARGET_LEVEL = 0.05
# Steps of 1%: a bound exceeds its exact inversion by at most 1%, or by 0.001.
_ALPHAS = np.geomspace(1, 1e-3, 695)[1:]
_MOST_PLAYED = 10_000


class PValue(StrEnum):
    """The test that gives the p-value of H: risk > alpha."""

    BINOMIAL = "binomial"
    """Exact, for losses and weights of 0 or 1."""
    BETTING = "betting"
    """Finite-sample, for losses in [0, 1] (`calibration.testing.betting`)."""
    ANYTIME = "anytime"
    """As betting, and valid at all times while units are added (`calibration.testing.anytime`)."""
    HOEFFDING_BENTKUS = "hoeffding-bentkus"
    """Finite-sample, for losses in [0, 1]; only for comparison, because it has little power."""
    CLT = "clt"
    """Asymptotic: no guarantee at any finite number of problems."""

    @property
    def bets(self) -> bool:
        """Whether it depends on the loss of every unit and their order, by bets."""
        return self in (PValue.BETTING, PValue.ANYTIME)


def p_values(
    losses: Losses,
    alpha: float,
    kind: PValue,
    seed: int = 0,
    target_level: ArrayLike = TARGET_LEVEL,
) -> NDArray[np.float64]:
    """The p-value of H: risk > alpha for each policy (T); see `p_value_table`."""
    return p_value_table(losses, [alpha], kind, seed, np.atleast_2d(target_level)).ravel()


def p_value_table(
    losses: Losses,
    alphas: ArrayLike,
    kind: PValue,
    seed: int = 0,
    target_level: ArrayLike = TARGET_LEVEL,
) -> NDArray[np.float64]:
    """The p-value of H: risk > alpha for each alpha (L) and policy (T), shape (L, T).

    If the units are independent draws, p is super-uniform under H: P(p <= u) <= u for every u. This
    holds for any number of units, except with CLT. It does not cover dependent units, or a policy,
    alpha, seed or target level chosen by looking at the same losses. Without any weight (nothing
    was answered), p = 1. The anytime test goes through the units in the order of their rows, which
    must not depend on their losses.

    The binomial test is conditional on the weights: given which units are answered, these are
    independent draws from the answered units. So the test holds for every number n of answered
    units, and therefore also unconditionally.

    Args:
        losses: losses of independent units.
        alphas: the risks to reject, each in (0, 1).
        kind: the test.
        seed: seed of the order in which a betting test visits the units.
        target_level: the level at which a betting test should have the most power, one number or
            shape (L, T); set it to the level that the p-value will be compared with. The test is
            valid at every other level too, but at a third of this level it has about three quarters
            of the possible power.

    Raises:
        CalibrationError: an alpha or target level is not in (0, 1), a loss or weight is out of its
            range, a binomial test is used with averaged losses, or another than the anytime test
            where labels were drawn.
    """
    _require_all_labels(losses, kind)
    losses.require_ranges()
    alpha_L1 = np.asarray(alphas, dtype=np.float64).reshape(-1, 1)
    target_LT = np.asarray(target_level, dtype=np.float64)
    for name, values in (("alpha", alpha_L1), ("target_level", target_LT)):
        for value in np.unique(values):
            require_rate(name, float(value))
    target_LT = np.broadcast_to(target_LT, (alpha_L1.size, losses.n_policies))
    if not losses.n_units:
        return np.ones(target_LT.shape)
    match kind:
        case PValue.BINOMIAL:
            _require_binary(losses)
            return _binomial_cdf(losses.total_loss_T, losses.total_weight_T, alpha_L1)
        case PValue.BETTING:
            return betting_p_values(losses, alpha_L1.ravel(), seed, target_LT)
        case PValue.ANYTIME:
            return np.stack([anytime_p_values(losses, alpha) for alpha in alpha_L1.ravel()])
        case PValue.HOEFFDING_BENTKUS:
            return _hoeffding_bentkus(*_totals(losses), alpha_L1)
        case PValue.CLT:
            return _clt(losses, alpha_L1)


def p_value_of_totals(
    total_loss: float, total_weight: float, n_units: int, alpha: float, kind: PValue
) -> float | None:
    """The p-value of `p_values` for one policy, from its totals; None if they do not determine it.

    They do for the binomial and the Hoeffding-Bentkus test. A betting test and the normal
    approximation depend on the loss of every unit.
    """
    match kind:
        case PValue.BINOMIAL:
            return float(_binomial_cdf(total_loss, total_weight, alpha))
        case PValue.HOEFFDING_BENTKUS:
            totals = np.array([total_loss]), np.array([total_weight]), n_units
            return float(_hoeffding_bentkus(*totals, np.array([[alpha]])).item())
    return None


def upper_bounds(losses: Losses, delta: float, kind: PValue, seed: int = 0) -> NDArray[np.float64]:
    """For each policy (T) the smallest alpha at which its risk is certified at delta; at most 1.

    The bound is above the risk with probability at least 1 - delta, for one policy fixed in advance
    (with CLT only asymptotically). It does not cover the policy with the smallest bound, or all
    policies at once; for that, use delta / T.

    For the binomial test it is the Clopper-Pearson bound. Otherwise alpha decreases on a fixed grid
    from 1 to 0.001 in steps of 1%, as long as `p_values` rejects. This is a fixed sequence test, so
    p-values need not be monotone. Betting takes about one second per policy and 10,000 units; use
    `Losses.select` for the policies that matter.

    Raises:
        CalibrationError: delta is not in (0, 1), a loss or weight is out of its range, a binomial
            test is used with averaged losses, or another than the anytime test where labels were
            drawn.
    """
    require_rate("delta", delta)
    _require_all_labels(losses, kind)
    losses.require_ranges()
    if kind is PValue.BINOMIAL:
        _require_binary(losses)
        return clopper_pearson_upper(losses.total_loss_T, losses.total_weight_T, delta)
    if not losses.n_units:
        return np.ones(losses.n_policies)
    match kind:
        case PValue.BETTING:
            each = (losses.select(np.array([policy])) for policy in range(losses.n_policies))
            p_LT = np.stack([betting_p_values_over(one, _ALPHAS, seed, delta) for one in each], 1)
        case PValue.ANYTIME:
            each = (losses.select(np.array([policy])) for policy in range(losses.n_policies))
            p_LT = np.stack([anytime_p_values_over(one, _ALPHAS) for one in each], 1)
        case PValue.HOEFFDING_BENTKUS:
            p_LT = _hoeffding_bentkus(*_totals(losses), _ALPHAS[:, None])
        case PValue.CLT:
            p_LT = _clt(losses, _ALPHAS[:, None])
    return _last_rejected(p_LT, delta)


def smallest_certifiable(
    losses: Losses, delta: float, kind: PValue, seed: int = 0, above: float = 0.0
) -> NDArray[np.float64]:
    """For each policy (T) the smallest alpha at which it is certified at delta; at most 1.

    That is `upper_bounds`, except where a test by bets rejects alphas that the risk on these very
    problems is not below: then it is the next alpha of the grid above this risk.

    Args:
        losses: see `upper_bounds`.
        delta: see `upper_bounds`.
        kind: see `upper_bounds`.
        seed: see `upper_bounds`.
        above: an alpha that was tested at delta and not certified.

    Raises:
        CalibrationError: see `upper_bounds`.
    """
    bound_T = upper_bounds(losses, delta, kind, seed)
    refused_T = np.maximum(losses.risk_T, above)
    rising = np.append(_ALPHAS[::-1], 1.0)
    next_T = rising[np.searchsorted(rising, np.minimum(refused_T, 1 - 1e-12), side="right")]
    return np.where(bound_T > refused_T, bound_T, next_T)


def upper_bound_of_totals(
    total_loss: float, total_weight: float, n_units: int, delta: float, kind: PValue
) -> float | None:
    """The bound of `upper_bounds` for one policy, from its totals; see `p_value_of_totals`."""
    match kind:
        case PValue.BINOMIAL:
            return float(clopper_pearson_upper(total_loss, total_weight, delta))
        case PValue.HOEFFDING_BENTKUS:
            totals = np.array([total_loss]), np.array([total_weight]), n_units
            return float(_last_rejected(_hoeffding_bentkus(*totals, _ALPHAS[:, None]), delta)[0])
    return None


def _last_rejected(p_LT: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """For each policy, the last alpha of the grid before the first that is not rejected."""
    n_rejected_T = np.logical_and.accumulate(p_LT <= delta, axis=0).sum(axis=0)
    bound_T: NDArray[np.float64] = np.concatenate(([1.0], _ALPHAS))[n_rejected_T]
    return bound_T


def _totals(losses: Losses) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    return losses.total_loss_T, losses.total_weight_T, losses.n_units


def binomial_p_value(losses: ArrayLike, alpha: float) -> float:
    """The p-value of H: risk > alpha from n losses of 0 or 1: P(Binomial(n, alpha) <= their sum).

    It is valid for every n, without approximation, if the losses are independent with a common
    mean. It does not cover averaged losses (several rollouts of one problem) or problems that share
    a template: these are not binary or not independent. Without losses, p = 1.

    Raises:
        CalibrationError: a loss is neither 0 nor 1, or alpha is not in (0, 1).
    """
    loss_P = np.asarray(losses, dtype=np.float64)
    odd_P = loss_P[(loss_P != 0) & (loss_P != 1)]
    if odd_P.size:
        raise CalibrationError(
            f"a loss is {odd_P[0]:g}: the binomial test takes 0 or 1, one rollout per problem"
        )
    return float(binomial_p_values(np.array(int(loss_P.sum())), np.array(loss_P.size), alpha))


def binomial_p_values(
    wrong_T: NDArray[np.int64], answered_T: NDArray[np.int64], alpha: float
) -> NDArray[np.float64]:
    """`binomial_p_value` from counts, for many policies (T) at once; 1 where nothing was answered.

    For the selective risk, n is the number of answered units. Given which units are answered, these
    are independent draws from the answered units. So the test holds conditionally on n, and
    therefore also unconditionally.

    Raises:
        CalibrationError: alpha is not in (0, 1).
    """
    require_rate("alpha", alpha)
    return _binomial_cdf(np.asarray(wrong_T), np.asarray(answered_T), alpha)


def clopper_pearson_upper(
    wrong: ArrayLike, answered: ArrayLike, delta: float
) -> NDArray[np.float64]:
    """The smallest alpha at which the binomial test rejects at level delta; 1 if none was answered.

    The bound is above the risk with probability at least 1 - delta, for one policy fixed in
    advance. It does not cover a policy chosen by looking at the same counts. With fractional counts
    (a forecast for another n) the result is only an estimate, not a bound.

    It is the upper end of `statsmodels.stats.proportion.proportion_confint` at 2 * delta, method
    "beta". Importing that would take every fit a fifth longer.

    Raises:
        CalibrationError: delta is not in (0, 1).
    """
    require_rate("delta", delta)
    wrong_T, answered_T = np.broadcast_arrays(
        np.asarray(wrong, dtype=np.float64), np.asarray(answered, dtype=np.float64)
    )
    right_T = answered_T - wrong_T
    # If all answers are wrong or there are none, the beta quantile is undefined; its limit is 1.
    bound_T = special.betaincinv(wrong_T + 1, np.where(right_T > 0, right_T, 1.0), 1 - delta)
    return np.where(right_T > 0, bound_T, 1.0)


def fewest_problems(alpha: float, delta: float) -> int:
    """The smallest number of answered problems that can certify alpha at delta, if all are right.

    It is the smallest n with (1 - alpha)^n <= delta: 22 at alpha = delta = 0.1.

    Raises:
        CalibrationError: alpha or delta is not in (0, 1).
    """
    require_rate("alpha", alpha)
    require_rate("delta", delta)
    fewest = math.log(delta) / math.log1p(-alpha)  # infinite if alpha is tiny
    return math.ceil(fewest) if fewest < sys.maxsize else sys.maxsize


def fewest_units(alpha: float, delta: float, kind: PValue) -> int:
    """The smallest number of units, all answered and right, with which this test certifies alpha.

    It is `fewest_problems` or hardly more, but up to half as many more for the anytime test. For
    the betting test, beyond 10,000 it is `fewest_problems`, a lower bound. For CLT it is what a
    test that keeps its level would need: the normal approximation may certify with fewer.

    Raises:
        CalibrationError: alpha or delta is not in (0, 1).
    """
    fewest = fewest_problems(alpha, delta)
    if kind is PValue.ANYTIME:
        return fewest_right(alpha, delta)
    if kind is PValue.BETTING:
        while fewest < _MOST_PLAYED and _p_value_if_right(fewest, alpha, delta) > delta:
            fewest += 1
    return fewest


def _require_all_labels(losses: Losses, kind: PValue) -> None:
    if losses.drawn is not None and kind is not PValue.ANYTIME:
        raise CalibrationError(
            f"the test {kind} needs the loss of every unit, and only a share of them was drawn for "
            "a label: use the anytime test"
        )


def _p_value_if_right(n: int, alpha: float, delta: float) -> float:
    right = Losses.unweighted(np.zeros((n, 1)))
    return float(betting_p_values_over(right, np.array([alpha]), 0, delta)[0])


def require_rate(name: str, value: float) -> None:
    """Raises CalibrationError for a rate outside (0, 1), including NaN."""
    if not 0 < value < 1:
        raise CalibrationError(f"{name} is {value}: give a rate between 0 and 1, for example 0.1")


def _binomial_cdf(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> NDArray[np.float64]:
    """P(Binomial(n, alpha) <= k); 1 if no answer is right, or there are none: no evidence."""
    right = np.subtract(n, k)
    # A hundred times as accurate as special.bdtr.
    some_right = special.betainc(np.maximum(right, 1), np.add(k, 1), np.subtract(1, alpha))
    return np.where(right > 0, some_right, 1.0)


def _hoeffding_bentkus(
    total_loss_T: NDArray[np.float64],
    total_weight_T: NDArray[np.float64],
    n: int,
    alpha_L1: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Shape (L, T): the smaller of Hoeffding's and Bentkus' tail bounds (LTT, Prop. 1)."""
    total_LT = total_loss_T + alpha_L1 * (n - total_weight_T)
    # If the mean is alpha or more, both bounds are at least 1.
    below_LT = total_LT < n * alpha_L1
    total_B, alpha_B = total_LT[below_LT], np.broadcast_to(alpha_L1, total_LT.shape)[below_LT]
    mean_B = total_B / n
    # rel_entr(0, alpha) is 0, the limit of x log(x / alpha).
    divergence_B = special.rel_entr(mean_B, alpha_B) + special.rel_entr(1 - mean_B, 1 - alpha_B)
    # Rounding errors, as in sums of thirds, must not lift a whole number to the next one.
    bentkus_B = np.e * _binomial_cdf(np.ceil(np.round(total_B, 9)), n, alpha_B)
    p_LT = np.ones(total_LT.shape)
    p_LT[below_LT] = np.minimum(np.exp(-n * divergence_B), bentkus_B)
    return p_LT


def _clt(losses: Losses, alpha_L1: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shape (L, T): the normal approximation for the mean of X over its spread about alpha."""
    loss_UT, weight_UT = losses.loss_UT, losses.weight_UT
    square_T = np.einsum("ut,ut->t", loss_UT, loss_UT)
    product_T = np.einsum("ut,ut->t", loss_UT, weight_UT)
    weight_square_T = np.einsum("ut,ut->t", weight_UT, weight_UT)
    variance_LT = square_T - 2 * alpha_L1 * product_T + alpha_L1**2 * weight_square_T
    surplus_LT = alpha_L1 * losses.total_weight_T - losses.total_loss_T
    # Without variance about alpha (up to rounding) every X is alpha: that is no evidence.
    some_LT = variance_LT > 1e-12 * losses.n_units
    score_LT = surplus_LT / np.sqrt(np.where(some_LT, variance_LT, 1))
    return np.where(some_LT, special.ndtr(-score_LT), 1.0)


def _require_binary(losses: Losses) -> None:
    if losses.binary:
        return
    for values_UT in (losses.loss_UT, losses.weight_UT):
        for value_T in values_UT:
            if (odd := value_T[(value_T != 0) & (value_T != 1)]).size:
                raise CalibrationError(
                    f"a loss or weight is {odd[0]:g}: the binomial test takes 0 or 1, not averaged "
                    f"losses; use {PValue.BETTING.value!r}, or one rollout per independent problem"
                )
