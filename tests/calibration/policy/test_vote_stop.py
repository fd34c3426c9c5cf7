"""The vote stop, depth by depth and vectorised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.policy.vote_stop import ends_vote, find_vote_stops, vote_stop
from calibration.policy.voting import NO_ANSWER, Vote, confidence_vote, majority_vote

# Coarse values, so that ties in depth, weight and lead are common.
SAMPLE = st.tuples(
    st.integers(1, 5),
    st.integers(NO_ANSWER, 2),
    st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.1 + 0.2, 0.5, 1.0]) | st.floats(0, 1),
)
LEAST = st.sampled_from([0.1, 0.125, 0.25, 0.375, 0.5, 1.0, 1.01]) | st.floats(0.01, 1.01)


@pytest.mark.parametrize(
    ("classes", "samples", "least", "ends"),
    [
        ([4, 4], 8, 0.25, True),
        ([4, 4], 8, 0.26, False),
        ([4, 4, 1], 8, 0.25, False),  # ahead by one of eight
        ([4, 4, 1, NO_ANSWER], 8, 0.125, True),
        ([NO_ANSWER, NO_ANSWER], 4, 0.01, False),
        ([], 4, 0.01, False),
        ([4], 1, 0.5, False),  # one sample has no one to stop
        ([4, 4], 2, 1.01, False),
    ],
)
def test_a_vote_ends_once_its_leader_is_far_enough_ahead(
    classes: list[int], samples: int, least: float, ends: bool
) -> None:
    assert ends_vote(majority_vote(classes), samples, least) is ends


def test_the_clock_is_the_depth_and_not_the_number() -> None:
    def majority(counted: list[int]) -> Vote:
        return majority_vote([[3, 3, 5, 5][number] for number in counted])

    # 5 leads by two of four at depth 20; the samples that say 3 think longer.
    assert vote_stop([60, 50, 20, 20], majority, 0.5) == [2, 3]
    # Samples that end at the same depth count together: nobody leads.
    assert vote_stop([20, 20, 20, 20], majority, 0.25) == [0, 1, 2, 3]
    assert vote_stop([60, 50, 20, 20], majority, 1.01) == [0, 1, 2, 3]


@settings(max_examples=400)
@given(
    questions=st.integers(2, 8).flatmap(
        lambda n: st.lists(
            st.tuples(st.lists(SAMPLE, min_size=n, max_size=n), LEAST), min_size=1, max_size=5
        )
    )
)
def test_stops_in_bulk_are_the_same_stops(
    questions: list[tuple[list[tuple[int, int, float]], float]],
) -> None:
    depth_NX, class_NX, weight_NX = (
        np.array([[sample[part] for sample in samples] for samples, _ in questions]).T
        for part in range(3)
    )
    least_X = np.array([least for _, least in questions])
    stop_X = find_vote_stops(depth_NX, class_NX, weight_NX, least_X)
    for x, (samples, least) in enumerate(questions):

        def vote(counted: list[int], of: list[tuple[int, int, float]] = samples) -> Vote:
            return confidence_vote([of[i][1] for i in counted], [of[i][2] for i in counted])

        counted = vote_stop([depth for depth, _, _ in samples], vote, least)
        assert counted == [i for i, (depth, _, _) in enumerate(samples) if depth <= stop_X[x]]


@settings(max_examples=200)
@given(samples=st.lists(SAMPLE, min_size=2, max_size=8), least=LEAST, data=st.data())
def test_what_a_sample_does_beyond_the_stop_changes_nothing(
    samples: list[tuple[int, int, float]], least: float, data: st.DataObject
) -> None:
    depths = [depth for depth, _, _ in samples]

    def vote(counted: list[int]) -> Vote:
        return confidence_vote([samples[i][1] for i in counted], [samples[i][2] for i in counted])

    counted = vote_stop(depths, vote, least)
    other = [
        sample
        if i in counted
        else (sample[0] + data.draw(st.integers(0, 3)), *data.draw(SAMPLE)[1:])
        for i, sample in enumerate(samples)
    ]

    def other_vote(chosen: list[int]) -> Vote:
        return confidence_vote([other[i][1] for i in chosen], [other[i][2] for i in chosen])

    assert vote_stop([depth for depth, _, _ in other], other_vote, least) == counted
