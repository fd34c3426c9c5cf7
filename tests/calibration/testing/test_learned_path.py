import numpy as np
import pytest

from calibration.simulation.losses import Losses
from calibration.simulation.replay import Replay
from calibration.testing.learned_path import choose_policy, learn_path, pareto_front


def test_pareto_front_by_hand() -> None:
    cost_TK = np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 2.0], [3.0, 2.0], [3.0, 1.0], [3.0, 3.0]])
    assert pareto_front(cost_TK).tolist() == [0, 1, 4]


class TestChoose:
    right_T = np.array([0.70, 0.69, 0.67, 0.69])
    tokens_T = np.array([1.0, 0.6, 0.2, 0.6])
    risk_T = np.array([0.1, 0.1, 0.1, 0.05])

    @pytest.mark.parametrize(
        ("price", "chosen"),
        [
            (0.0, 0),  # right answers alone
            (0.03, 3),  # 0.70 - 0.03, 0.69 - 0.018, 0.67 - 0.006; of two the same, the lower risk
            (0.1, 2),
            (None, 2),  # where every question is answered, tokens alone
        ],
    )
    def test_right_answers_less_what_their_tokens_cost(
        self, price: float | None, chosen: int
    ) -> None:
        assert choose_policy(self.right_T, self.tokens_T, self.risk_T, price) == chosen

    def test_ties_go_to_the_lower_risk_and_then_to_the_first(self) -> None:
        same_T = np.full(3, 0.5)
        assert choose_policy(same_T, same_T, np.array([0.2, 0.1, 0.1]), price=None) == 1
        assert choose_policy(same_T, same_T, same_T, price=0.0) == 0

    def test_the_only_one(self) -> None:
        one_T = np.zeros(1)
        assert choose_policy(one_T, one_T, one_T, price=0.0) == 0


def measured(*policies: tuple[int, int, float]) -> Replay:
    """100 problems; per policy the number answered, the number of those wrong, and mean tokens."""
    rank_U1 = np.arange(100)[:, None]
    answered, wrong, tokens = (np.array(column) for column in zip(*policies, strict=True))
    return Replay(
        losses=Losses((rank_U1 < wrong).astype(float), (rank_U1 < answered).astype(float)),
        answered_T=answered / 100,
        right_T=(answered - wrong) / 100,
        tokens_T=tokens,
        full_tokens=500.0,
        full_right=0.75,
        n_problems=100,
        n_draws=100,
    )


def test_path_goes_from_safe_to_useful() -> None:
    path = learn_path(
        measured(
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
    path = learn_path(measured((60, 2, 400.0), (20, 2, 100.0), (80, 10, 420.0)), delta=0.1)
    assert path.tolist() == [0, 2]


def test_where_every_question_counts_the_front_is_of_risk_and_tokens() -> None:
    found = measured((100, 0, 500.0), (100, 5, 300.0), (100, 8, 350.0), (100, 40, 100.0))
    assert learn_path(found, delta=0.1, price=None).tolist() == [0, 1, 3]


def test_where_nothing_is_answered_there_still_is_a_path() -> None:
    assert learn_path(measured((0, 0, 100.0), (0, 0, 200.0)), delta=0.1).tolist() == [0]
