"""Exact binomial tests of a risk, and the bounds that invert them."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibration.errors import CalibrationError


def binomial_p_value(losses: ArrayLike, alpha: float) -> float:
    """The p-value of H: risk > alpha from n losses of 0 or 1: P(Binomial(n, alpha) <= their sum).

    Valid for every n, no approximation, if the losses are independent with a common mean. It does
    not cover averaged losses (several rollouts of one problem) or problems that share a template:
    both are dependent or not binary. No losses: p = 1.

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

    For the selective risk n is the number answered: given who is answered, the answered are
    independent draws of the answered, so the test holds conditionally on n, and hence without
    conditioning.

    Raises:
        CalibrationError: alpha is not in (0, 1).
    """
    require_rate("alpha", alpha)
    # bdtr is the binomial distribution function; its value for n = 0 is 1: no answers, no evidence.
    return np.asarray(special.bdtr(wrong_T, answered_T, alpha), dtype=np.float64)


def clopper_pearson_upper(
    wrong: ArrayLike, answered: ArrayLike, delta: float
) -> NDArray[np.float64]:
    """The smallest alpha at which the binomial test rejects at level delta; 1 if none was answered.

    It lies above the risk with probability at least 1 - delta, for one policy fixed in advance. It
    does not cover a policy chosen by looking at the same counts. Counts may be fractions (a
    forecast for another n); then it is no bound, only a guess.

    Raises:
        CalibrationError: delta is not in (0, 1).
    """
    require_rate("delta", delta)
    wrong_T, answered_T = np.broadcast_arrays(
        np.asarray(wrong, dtype=np.float64), np.asarray(answered, dtype=np.float64)
    )
    right_T = answered_T - wrong_T
    # All wrong, or none answered: the beta quantile is undefined, its limit is 1.
    bound_T = special.betaincinv(wrong_T + 1, np.where(right_T > 0, right_T, 1.0), 1 - delta)
    return np.where(right_T > 0, bound_T, 1.0)


def fewest_problems(alpha: float, delta: float) -> int:
    """The fewest answered problems with which alpha can be certified at delta, all of them right.

    The smallest n with (1 - alpha)^n <= delta: 22 at alpha = delta = 0.1.

    Raises:
        CalibrationError: alpha or delta is not in (0, 1).
    """
    require_rate("alpha", alpha)
    require_rate("delta", delta)
    return math.ceil(math.log(delta) / math.log1p(-alpha))


def require_rate(name: str, value: float) -> None:
    """Refuse a rate outside (0, 1), NaN included, by name."""
    if not 0 < value < 1:
        raise CalibrationError(f"{name} is {value}: give a rate between 0 and 1, for example 0.1")
