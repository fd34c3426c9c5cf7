"""A path of policies, learned on other problems than the test's (Pareto Testing, 2210.07913)."""

import numpy as np
from numpy.typing import NDArray

from calibration.simulation.replay import Replay
from calibration.testing.p_values import clopper_pearson_upper

TOKEN_PRICE = 0.05
"""Share of right answers that a full budget of tokens is worth, under risks that may abstain."""
REFUTED = 0.05
"""Level of the test that shows a policy to break alpha, on problems to learn from."""


def learn_path(order: Replay, delta: float, price: float | None = TOKEN_PRICE) -> NDArray[np.intp]:
    """The path of policies to test, safest first, as indices into the replayed policies.

    The path starts from the Pareto front of risk, tokens and, for a risk that may abstain, the
    share answered correctly, sorted by risk. A policy of the front is kept only if `choose_policy`
    would prefer it to those before it. Any other policy would never be served and would only give
    the test another chance to stop early. The Clopper-Pearson bound stands for the risk: "safest"
    then means "most likely to pass the test", and not "few answers and a lucky streak".

    A poor path costs power, not validity: the test is valid because it runs on other problems.

    Args:
        order: policies replayed on the ordering problems.
        delta: the level of the test that the path is made for.
        price: see `choose_policy`.
    """
    bound_T = clopper_pearson_upper(order.losses.total_loss_T, order.losses.total_weight_T, delta)
    costs = [bound_T, order.tokens_T] + ([] if price is None else [-order.right_T])
    front = pareto_front(np.stack(costs, axis=1))
    path: list[int] = []
    tokens_T = order.tokens_T / order.full_tokens
    for step in front[np.lexsort((order.tokens_T[front], bound_T[front]))]:
        so_far = np.array([*path, step])
        if choose_policy(order.right_T[so_far], tokens_T[so_far], bound_T[so_far], price) == len(
            path
        ):
            path.append(int(step))
    return np.array(path, dtype=np.intp)


def utility_shown(order: Replay, alpha: float, price: float) -> float:
    """The greatest utility along policies, up to the first that is shown to break alpha, or 0.

    One is shown to break alpha if the one-sided Clopper-Pearson bound below its risk is above it.

    Args:
        order: a chain or path, replayed on the problems to learn from.
        alpha: the risk to keep.
        price: see `choose_policy`.
    """
    answered_T = order.losses.total_weight_T
    right_T = answered_T - order.losses.total_loss_T
    refuted_T = 1 - clopper_pearson_upper(right_T, answered_T, REFUTED) > alpha
    utility_T = order.right_T - price * order.tokens_T / order.full_tokens
    return float(np.max(utility_T, where=~np.logical_or.accumulate(refuted_T), initial=0.0))


def choose_policy(
    right_T: NDArray[np.float64],
    tokens_T: NDArray[np.float64],
    risk_T: NDArray[np.float64],
    price: float | None = TOKEN_PRICE,
) -> int:
    """The policy to serve: the one with the largest utility, right answers minus paid tokens.

    The utility is one number for each policy, so a choice among more policies is never worse: where
    everything certified at alpha is certified at every larger alpha, utility never falls as alpha
    rises. Ties go to the lower risk. Any choice among certified policies keeps the guarantee. The
    figures that the choice is based on are optimistic afterwards.

    Args:
        right_T: share of questions answered correctly.
        tokens_T: expected tokens, as a share of the full budget's.
        risk_T: empirical risk.
        price: share of right answers that a full budget of tokens is worth; None for risks under
            which every question is answered: then only tokens count.
    """
    utility_T = -tokens_T if price is None else right_T - price * tokens_T
    return int(np.lexsort((risk_T, -utility_T))[0])


def choose_certified(
    measured: Replay, certified_T: NDArray[np.bool_], price: float | None
) -> int | None:
    """The certified policy to serve, chosen by `choose_policy`; None if none is certified."""
    policies = np.flatnonzero(certified_T)
    if not policies.size:
        return None
    figures = measured.right_T, measured.tokens_T / measured.full_tokens, measured.losses.risk_T
    right_T, tokens_T, risk_T = (values_T[policies] for values_T in figures)
    return int(policies[choose_policy(right_T, tokens_T, risk_T, price)])


def pareto_front(cost_TK: NDArray[np.float64]) -> NDArray[np.intp]:
    """Policies (T) that no other policy beats: at most the same in every cost (K) and lower in one.

    Of policies with equal costs, the first is kept. The indices are sorted.
    """
    distinct_UK, first_U = np.unique(cost_TK, axis=0, return_index=True)
    # Rows are distinct: if no other row beats it, only the row itself is as low in every cost.
    beaten_U = [np.count_nonzero((distinct_UK <= row_K).all(axis=1)) > 1 for row_K in distinct_UK]
    return np.sort(first_U[~np.array(beaten_U)])
