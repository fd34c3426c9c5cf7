"""A path of policies, learned on problems that will not test it (Pareto Testing, 2210.07913)."""

import numpy as np
from numpy.typing import NDArray

from calibration.simulation.replay import Replay
from calibration.testing.p_values import clopper_pearson_upper

SLACK = 0.02


def lay_path(order: Replay, delta: float, slack: float | None = SLACK) -> NDArray[np.intp]:
    """The path of policies to test, safest first, as indices into the replayed policies.

    Of the Pareto front of risk, tokens and, for a risk that may abstain, share answered and right,
    sorted by risk, each step is kept at which `choose` would change its mind. Whatever else lies
    on the front would never be served, and only adds chances for the test to stop early. Risk is
    stood for by its Clopper-Pearson bound, so that safest means likeliest to pass the test, not few
    answers and a lucky streak.

    The path is a guess that the test may disappoint, but not mislead: validity rests on the test
    being run on other problems.

    Args:
        order: policies replayed on the ordering problems.
        delta: the level of the test that the path is laid out for.
        slack: see `choose`.
    """
    bound_T = clopper_pearson_upper(order.losses.total_loss_T, order.losses.total_weight_T, delta)
    costs = [bound_T, order.tokens_T] + ([] if slack is None else [-order.right_T])
    front = pareto_front(np.stack(costs, axis=1))
    path: list[int] = []
    for step in front[np.lexsort((order.tokens_T[front], bound_T[front]))]:
        so_far = np.array([*path, step])
        if choose(order.right_T[so_far], order.tokens_T[so_far], bound_T[so_far], slack) == len(
            path
        ):
            path.append(int(step))
    return np.array(path, dtype=np.intp)


def choose(
    right_T: NDArray[np.float64],
    tokens_T: NDArray[np.float64],
    risk_T: NDArray[np.float64],
    slack: float | None = SLACK,
) -> int:
    """The policy to serve: fewest tokens; if it may abstain, near the best share answered right.

    A tie in tokens goes to the lower risk. Any choice among certified policies keeps the
    guarantee; the figures it was made by are then optimistic.

    Args:
        right_T: share answered and right.
        tokens_T: expected tokens.
        risk_T: empirical risk.
        slack: how far below the best `right_T` may lie; None: however far, for risks under which
            every question is answered.
    """
    near_T = np.arange(len(right_T))
    if slack is not None:
        near_T = np.flatnonzero(right_T >= right_T.max() - slack)
    return int(near_T[np.lexsort((risk_T[near_T], tokens_T[near_T]))[0]])


def pareto_front(cost_TK: NDArray[np.float64]) -> NDArray[np.intp]:
    """Policies (T) that no other beats: as cheap in every cost (K) and cheaper in one.

    Of policies with the same costs the first is kept. Indices come sorted.
    """
    distinct_UK, first_U = np.unique(cost_TK, axis=0, return_index=True)
    # Rows are distinct, so only the row itself is as cheap everywhere if nothing beats it.
    beaten_U = [np.count_nonzero((distinct_UK <= row_K).all(axis=1)) > 1 for row_K in distinct_UK]
    return np.sort(first_U[~np.array(beaten_U)])
