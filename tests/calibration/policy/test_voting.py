import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration import CalibrationError, confidence_vote, majority_vote
from calibration.policy.voting import is_answered, take_votes


def test_majority_counts_heads() -> None:
    vote = majority_vote([4, 2, 2, -1])
    assert vote.winner == 2
    assert vote.share == 0.5
    assert vote.tally == {4: 1.0, 2: 2.0}


def test_confidence_outweighs_heads() -> None:
    vote = confidence_vote([4, 2, 2, -1], [0.9, 0.3, 0.4, 0.4])
    assert vote.winner == 4
    assert vote.share == pytest.approx(0.45)
    assert vote.tally == pytest.approx({4: 0.9, 2: 0.7})


def test_a_tie_goes_to_the_class_seen_first() -> None:
    assert majority_vote([3, 1, 1, 3]).winner == 3
    assert majority_vote([1, 3, 3, 1]).winner == 1
    assert confidence_vote([3, 1], [0.5, 0.5]).winner == 3


def test_no_answer_never_wins() -> None:
    assert majority_vote([-1, -1, 5]).winner == 5
    assert majority_vote([-1, -1]).winner is None
    assert confidence_vote([-1], [0.9]).share == 0.0
    assert majority_vote([]).winner is None


def test_no_weight_at_all() -> None:
    vote = confidence_vote([2, 3], [0.0, 0.0])
    assert (vote.winner, vote.share) == (2, 0.0)


def test_the_order_of_samples_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 6))
        classes = rng.integers(-1, 3, size=n).tolist()
        confidences = rng.random(n).tolist()
        expected = confidence_vote(classes, confidences)
        for order in itertools.permutations(range(n)):
            vote = confidence_vote([classes[i] for i in order], [confidences[i] for i in order])
            assert vote == expected


def test_rounding_does_not_decide_a_vote() -> None:
    # Added left to right, 0.1 + 0.2 + 0.3 exceeds 0.3 + 0.2 + 0.1 in the last bit.
    classes, confidences = [0, 0, 0, 1, 1, 1], [0.3, 0.2, 0.1, 0.1, 0.2, 0.3]
    assert confidence_vote(classes, confidences).winner == 0
    assert confidence_vote(classes[::-1], confidences[::-1]).winner == 1


@pytest.mark.parametrize(
    ("classes", "confidences", "message"),
    [
        ([1, 2], [0.5], "2 answer classes and 1 confidences"),
        ([1], [float("nan")], "confidence is nan"),
        ([1], [1.5], "confidence is 1.5"),
        ([-2], [0.5], "answer class is -2"),
    ],
)
def test_refuses(classes: list[int], confidences: list[float], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        confidence_vote(classes, confidences)


# Coarse and fine weights, so that ties are common, and so are near-ties.
weight = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0]) | st.floats(0, 1)
sample = st.tuples(st.integers(-1, 3), weight)


@settings(max_examples=300)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(sample, min_size=n, max_size=n), min_size=1, max_size=6)
    )
)
def test_votes_in_bulk_are_the_same_votes(questions: list[list[tuple[int, float]]]) -> None:
    class_XN = np.array([[answer_class for answer_class, _ in samples] for samples in questions])
    weight_XN = np.array([[confidence for _, confidence in samples] for samples in questions])
    votes = take_votes(class_XN, weight_XN)
    for x, samples in enumerate(questions):
        vote = confidence_vote(class_XN[x].tolist(), weight_XN[x].tolist())
        carrying = int(votes.sample_X[x])
        assert (None if carrying < 0 else samples[carrying][0]) == vote.winner
        assert votes.share_X[x] == vote.share
        if vote.winner is not None:
            assert carrying == class_XN[x].tolist().index(vote.winner)


def test_votes_in_bulk_take_any_shape() -> None:
    rng = np.random.default_rng(0)
    class_NX, weight_NX = rng.integers(-1, 2, (5, 3, 4)), rng.random((5, 3, 4))
    votes = take_votes(np.moveaxis(class_NX, 0, -1), np.moveaxis(weight_NX, 0, -1))
    assert votes.sample_X.shape == votes.share_X.shape == (3, 4)
    for i, j in np.ndindex(3, 4):
        vote = confidence_vote(class_NX[:, i, j].tolist(), weight_NX[:, i, j].tolist())
        assert votes.share_X[i, j] == vote.share


def test_only_several_samples_need_a_share_of_the_vote() -> None:
    share_X = np.array([0.4, 0.5, 0.6, 0.0])
    won_X = np.array([True, True, True, False])
    assert is_answered(3, won_X, share_X, 0.5).tolist() == [False, True, True, False]
    assert is_answered(3, won_X, share_X, 0.0).tolist() == [True, True, True, False]
    assert is_answered(1, won_X, share_X, 0.5).tolist() == [True, True, True, False]
    assert is_answered(2, True, 0.5, 0.5)
    assert not is_answered(2, True, 0.5, 0.6)
