import numpy as np

from calibration import FULL_BUDGET, policy_grid
from calibration.path import choose, lay_path, pareto_front
from calibration.replay import Replay


def test_grid_holds_distinct_policies_and_the_full_budget() -> None:
    grid = policy_grid(checkpoint_interval=16, max_tokens=1024)
    assert FULL_BUDGET in grid
    assert len(set(grid)) == len(grid) > 1000
    assert {policy.patience for policy in grid} == {0, 64, 128, 256}
    # A patience as long as the budget would never run out.
    assert {policy.patience for policy in policy_grid(16, 128)} == {0, 64}


def test_pareto_front_by_hand() -> None:
    cost_TK = np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 2.0], [3.0, 2.0], [3.0, 1.0], [3.0, 3.0]])
    assert pareto_front(cost_TK).tolist() == [0, 1, 4]


def test_choose_saves_tokens_within_slack_of_the_best_share() -> None:
    right_T = np.array([0.70, 0.69, 0.67, 0.69])
    tokens_T = np.array([500.0, 300.0, 100.0, 300.0])
    risk_T = np.array([0.1, 0.1, 0.1, 0.05])
    # 0.67 is too far below 0.70; of the two at 300 tokens, the lower risk.
    assert choose(right_T, tokens_T, risk_T, slack=0.02) == 3
    assert choose(right_T, tokens_T, risk_T, slack=0.0) == 0
    assert choose(right_T, tokens_T, risk_T, slack=0.05) == 2


def outcomes(*policies: tuple[int, int, float]) -> Replay:
    """100 problems; per policy the number answered, the number of those wrong, and mean tokens."""
    rank_P1 = np.arange(100)[:, None]
    answered, wrong, tokens = (np.array(column) for column in zip(*policies, strict=True))
    return Replay(
        answered_PT=(rank_P1 < answered).astype(float),
        wrong_PT=(rank_P1 < wrong).astype(float),
        tokens_PT=np.tile(tokens, (100, 1)),
    )


def test_path_goes_from_safe_to_useful() -> None:
    path = lay_path(
        outcomes(
            (100, 25, 500.0),  # answers everything
            (60, 2, 400.0),  # careful
            (80, 10, 420.0),  # in between
            (79, 12, 450.0),  # beaten by the one before in everything
            (5, 0, 390.0),  # never wrong, in five answers: not safe, only lucky
        ),
        delta=0.1,
    )
    assert path.tolist() == [1, 2, 0]


def test_steps_that_would_never_be_served_are_left_out() -> None:
    # Cheap but hopeless: on the front by its tokens alone, and never chosen.
    path = lay_path(outcomes((60, 2, 400.0), (20, 2, 100.0), (80, 10, 420.0)), delta=0.1)
    assert path.tolist() == [0, 2]


def test_where_nothing_is_answered_there_still_is_a_path() -> None:
    assert lay_path(outcomes((0, 0, 100.0), (0, 0, 200.0)), delta=0.1).tolist() == [0]
