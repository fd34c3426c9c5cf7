import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import CalibrationError
from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.share_intervals import shares_over_problems
from calibration.metrics.vote_curves import pass_at_k, vote_curves
from tests.calibration.scored_rollouts import drawn, shuffled


def credit(scored: ScoredRollouts, chosen: tuple[int, ...], weighted: bool) -> float:
    """Expected credit of a vote of these rollouts of one problem; ties are broken at random."""
    tally: dict[int, float] = {}
    for r in chosen:
        if scored.answer_class_R[r] >= 0:
            weight = scored.confidence_R[r] if weighted else 1.0
            answer = int(scored.answer_class_R[r])
            tally[answer] = tally.get(answer, 0.0) + weight
    most = max(tally.values(), default=0.0)
    leaders = [answer for answer, weight in tally.items() if abs(weight - most) < 1e-11]
    right = set(scored.answer_class_R[scored.correct_R].tolist())
    return sum(answer in right for answer in leaders) / len(leaders) if leaders else 0.0


def exactly(scored: ScoredRollouts, n: int, weighted: bool) -> float:
    """The mean over problems of the mean over all their sets of n rollouts."""
    means = []
    for p in range(scored.n_problems):
        own = np.flatnonzero(scored.problem_R == p).tolist()
        sets = itertools.combinations(own, n)
        means.append(np.mean([credit(scored, chosen, weighted) for chosen in sets]))
    return float(np.mean(means))


def values(curve: tuple[Estimate, ...]) -> list[float | None]:
    return [each.value for each in curve]


def one_problem(classes: list[int], confidence: list[float]) -> ScoredRollouts:
    """Class 0 is right."""
    return ScoredRollouts(
        problem_R=np.zeros(len(classes), dtype=np.intp),
        correct_R=np.array(classes) == 0,
        confidence_R=np.array(confidence),
        answer_class_R=np.array(classes),
    )


def test_by_hand() -> None:
    # Two of three say 1, which is wrong, but less surely than the one of 0.
    curves = vote_curves(one_problem([0, 1, 1], [0.9, 0.3, 0.4]), [1, 2, 3], draws=3)
    assert curves.n == (1, 2, 3)
    assert values(curves.pass_at_1) == pytest.approx([1 / 3] * 3)
    # Of the three pairs, two are ties.
    assert values(curves.majority) == pytest.approx([1 / 3, 1 / 3, 0])
    assert values(curves.confidence) == pytest.approx([1 / 3, 2 / 3, 1])
    assert values(curves.oracle) == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.parametrize(
    ("classes", "confidence", "majority", "weighted"),
    [
        pytest.param([0, 1], [0.5, 0.5], 1 / 2, 1 / 2, id="tie"),
        pytest.param([0, 1, 2, 2, 1, 3], [0.2] * 6, 0, 0, id="two of three lead, both wrong"),
        pytest.param([0, 1, 2, 0, 1, 2], [0.2] * 6, 1 / 3, 1 / 3, id="three lead"),
        pytest.param([1, 0, 0, 1, 1, 0], [0.3, 0.3, 0.2, 0.1, 0.2, 0.1], 1 / 2, 1 / 2, id="sums"),
        pytest.param([-1, -1, 0], [1.0, 1.0, 0.1], 1, 1, id="no answer has no vote"),
        pytest.param([-1, -1], [1.0, 1.0], 0, 0, id="nobody answers"),
        pytest.param([0, 1, 1], [0.0, 0.0, 0.0], 0, 1 / 2, id="nobody is sure at all"),
        pytest.param([0, 1, -1], [0.0, 0.1, 0.9], 1 / 2, 0, id="a weight of 0 leads no one"),
    ],
)
def test_all_rollouts(
    classes: list[int], confidence: list[float], majority: float, weighted: float
) -> None:
    curves = vote_curves(one_problem(classes, confidence), [len(classes)])
    assert values(curves.majority) == pytest.approx([majority])
    assert values(curves.confidence) == pytest.approx([weighted])


@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 4)), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_all_sets_of_few_rollouts(rollouts: list[tuple[int, int]], seed: int) -> None:
    """Many rings of five rollouts hold all sets, almost equally often."""
    classes, confidence = zip(*rollouts, strict=True)
    scored = one_problem(list(classes), [c / 4 for c in confidence])
    sizes = range(1, len(rollouts) + 1)
    curves = vote_curves(scored, sizes, draws=5000, seed=seed, resamples=1)
    for weighted, curve in ((False, curves.majority), (True, curves.confidence)):
        expected = [exactly(scored, n, weighted) for n in sizes]
        assert values(curve) == pytest.approx(expected, abs=0.05)
        # One set, and each rollout by itself: no draws about it.
        assert values(curve)[-1] == pytest.approx(expected[-1], abs=1e-12)
        assert values(curve)[0] == pytest.approx(expected[0], abs=1e-12)


def test_problems_with_more_rollouts_than_others() -> None:
    scored = drawn(1, problems=9, rollouts=[4, 6, 5] * 3, levels=5)
    curves = vote_curves(scored, [3, 4], draws=20_000, resamples=1)
    for weighted, curve in ((False, curves.majority), (True, curves.confidence)):
        expected = [exactly(scored, n, weighted) for n in (3, 4)]
        assert values(curve) == pytest.approx(expected, abs=0.01)
    shares = scored.right_P / scored.rollouts_P
    assert values(curves.pass_at_1) == pytest.approx([shares.mean()] * 2)


def test_neither_order_nor_threads_nor_blocks_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = drawn(2, problems=30, rollouts=8, levels=9)
    expected = vote_curves(scored, range(1, 9), draws=16, resamples=20, threads=1)
    assert vote_curves(shuffled(scored), range(1, 9), draws=16, resamples=20, threads=3) == expected
    monkeypatch.setattr("calibration.metrics.vote_curves._CELLS", 1)
    whole = vote_curves(scored, [8], resamples=20)
    assert whole.confidence[0] == expected.confidence[-1]


def test_the_numbers_of_answers_are_names() -> None:
    scored = drawn(3, problems=30, rollouts=8)
    answer_R = scored.answer_class_R
    renamed = replace(scored, answer_class_R=np.where(answer_R < 0, -1, 10**9 + 7 * answer_R))
    assert vote_curves(renamed, [4], draws=8) == vote_curves(scored, [4], draws=8)


def test_intervals_are_of_the_units() -> None:
    scored = drawn(4, problems=50, rollouts=6, groups=20)
    curves = vote_curves(scored, [6], resamples=100, seed=3)
    oracle_P = scored.right_P > 0
    (expected,) = shares_over_problems(
        oracle_P[:, None], np.ones(50), unit_P=scored.unit_P, rollouts=300
    )
    alone = estimate_metrics(scored, ["accuracy"])["accuracy"]
    for found, share in ((curves.oracle[0], expected), (curves.pass_at_1[0], alone)):
        assert (found.low, found.high) == pytest.approx((share.low, share.high))


def test_the_gain_of_a_weighted_vote_is_paired() -> None:
    scored = drawn(4, problems=50, rollouts=6)
    curves = vote_curves(scored, [1, 3, 6], resamples=100)
    gains = [w.value - m.value for w, m in zip(curves.confidence, curves.majority, strict=True)]
    assert [gain.value for gain in curves.gain] == pytest.approx(gains)
    assert curves.gain[0] == Estimate(0.0)  # one rollout has no other to be weighed against
    for gain, weighted in zip(curves.gain[1:], curves.confidence[1:], strict=True):
        assert gain.low < gain.value < gain.high
        assert gain.high - gain.low < weighted.high - weighted.low


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 9))
def test_pass_at_k_counts_sets(n: int, right: int, k: int) -> None:
    right, k = min(right, n), min(k, n)
    sets = list(itertools.combinations(range(n), k))
    expected = sum(min(chosen) < right for chosen in sets) / len(sets)
    assert pass_at_k(np.array([n]), np.array([right]), k) == pytest.approx([expected])


def test_pass_at_k_of_many_rollouts() -> None:
    found = pass_at_k(np.array([1000, 1000, 1000]), np.array([0, 1, 1000]), 250)
    assert found == pytest.approx([0, 0.25, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vote_curves(drawn(rollouts=5), [1, 6]), r"n is \[1, 6\] and a problem has 5"),
        (lambda: vote_curves(drawn(), [0]), r"n is \[0\]"),
        (lambda: vote_curves(drawn(), []), r"n is \[\]"),
        (lambda: vote_curves(drawn(), [1], draws=0), "draws is 0"),
        (lambda: pass_at_k(np.array([3, 2]), np.array([0, 0]), 3), "k is 3 and a problem has 2"),
        (lambda: pass_at_k(np.array([3]), np.array([0]), 0), "k is 0"),
    ],
)
def test_refuses(call: Callable[[], object], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        call()
