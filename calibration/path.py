"""Which policies to test, and in which order; laid out on problems that will not test them."""

import numpy as np
from numpy.typing import NDArray

from calibration.exit_rule import FULL_BUDGET, ExitPolicy
from calibration.pvalues import clopper_pearson_upper
from calibration.replay import Replay

LAMBDA_LOW = (0.05, 0.1, 0.2, 0.3)
PATIENCE_CHECKPOINTS = (4, 8, 16)
LAMBDA_HIGH = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 1.01)
LAMBDA_ANSWER = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.99)
SLACK = 0.02


def policy_grid(checkpoint_interval: int, max_tokens: int) -> tuple[ExitPolicy, ...]:
    """A fixed grid of about 1,000 policies, the full-budget one among them; no data is looked at.

    λa stays at or below λ2: the end has seen more than the checkpoint that would have fired.

    Args:
        checkpoint_interval: N, tokens; patience is a multiple of it.
        max_tokens: the reasoning budget; a patience that reaches it could never run out.
    """
    never = (FULL_BUDGET.lambda_low, FULL_BUDGET.patience)
    patiences = [n * checkpoint_interval for n in PATIENCE_CHECKPOINTS]
    low_exits = [(low, tokens) for low in LAMBDA_LOW for tokens in patiences if tokens < max_tokens]
    return tuple(
        ExitPolicy(lambda_low=low, patience=patience, lambda_high=high, lambda_answer=lambda_answer)
        for low, patience in (never, *low_exits)
        for high in LAMBDA_HIGH
        for lambda_answer in LAMBDA_ANSWER
        if lambda_answer <= high
    )


def lay_path(order: Replay, delta: float, slack: float = SLACK) -> NDArray[np.intp]:
    """The path of policies to test, safest first, as indices into the replayed policies.

    Of the Pareto front of risk, tokens, and share answered and right, sorted by risk, each step is
    kept at which `choose` would change its mind. Whatever else lies on the front would never be
    served, and only adds chances for the test to stop early. Risk is stood for by its
    Clopper-Pearson bound, so that safest means likeliest to pass the test, not few answers and a
    lucky streak.

    The path is a guess that the test may disappoint, but not mislead: validity rests on the test
    being run on other problems.

    Args:
        order: policies replayed on the ordering problems.
        delta: the level of the test that the path is laid out for.
        slack: see `choose`.
    """
    bound_T = clopper_pearson_upper(
        order.wrong_PT.sum(axis=0), order.answered_PT.sum(axis=0), delta
    )
    tokens_T = order.tokens_PT.mean(axis=0)
    right_T = order.right_PT.mean(axis=0)
    front = pareto_front(np.stack([bound_T, tokens_T, -right_T], axis=1))
    path: list[int] = []
    for step in front[np.lexsort((tokens_T[front], bound_T[front]))]:
        so_far = np.array([*path, step])
        if choose(right_T[so_far], tokens_T[so_far], bound_T[so_far], slack) == len(path):
            path.append(int(step))
    return np.array(path, dtype=np.intp)


def choose(
    right_T: NDArray[np.float64],
    tokens_T: NDArray[np.float64],
    risk_T: NDArray[np.float64],
    slack: float = SLACK,
) -> int:
    """The policy to serve: fewest tokens within `slack` of the best share answered and right.

    A tie in tokens goes to the lower risk. Any choice among certified policies keeps the
    guarantee; the figures it was made by are then optimistic.
    """
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
