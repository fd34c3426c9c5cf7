import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import CalibrationError, auroc
from calibration.metrics.ranking import pairs_within, risk_coverage
from tests.calibration.plain_metrics import within_auroc

CONFIDENCE = [0.1, 0.3, 0.6, 0.8, 1.0]
CORRECT = [0, 1, 1, 0, 0]


def test_auroc_by_hand() -> None:
    # Right: 0.3, 0.6; wrong: 0.1, 0.8, 1.0. Of six pairs, two are in order.
    assert auroc(CONFIDENCE, CORRECT) == pytest.approx(2 / 6)
    assert auroc([0.5, 0.5], [0, 1]) == 0.5
    assert auroc([0.1, 0.2, 0.2, 0.9], [0, 0, 1, 1]) == pytest.approx(3.5 / 4)


def test_auroc_is_the_share_of_ordered_pairs() -> None:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 8, size=60) / 8
    correct = rng.random(60) < 0.4
    right, wrong = score[correct][:, None], score[~correct][None, :]
    pairs = (right > wrong).mean() + (right == wrong).mean() / 2
    assert auroc(score, correct) == pytest.approx(pairs)


def test_risk_coverage_by_hand() -> None:
    # From the surest on: wrong, wrong, right, right, wrong.
    curve = risk_coverage(CONFIDENCE, CORRECT)
    assert curve.threshold_K.tolist() == [1.0, 0.8, 0.6, 0.3, 0.1]
    assert curve.coverage_K.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert curve.risk_K.tolist() == pytest.approx([1, 1, 2 / 3, 1 / 2, 3 / 5])
    assert curve.area == pytest.approx((1 + 1 + 2 / 3 + 1 / 2 + 3 / 5) / 5)


def test_a_perfect_ranking_has_the_smallest_area_and_a_reversed_one_the_largest() -> None:
    correct = np.arange(20) >= 8
    best, worst = (risk_coverage(s * np.arange(20), correct).area for s in (1, -1))
    # 12 right come first: the risk is 0 up to there, then k of 12 + k.
    assert best == pytest.approx(sum(k / (12 + k) for k in range(1, 9)) / 20)
    for seed in range(20):
        shuffled = np.random.default_rng(seed).permutation(20)
        assert best < risk_coverage(shuffled, correct).area < worst


def test_ties_are_one_point_and_their_area_is_the_mean_over_all_orders() -> None:
    confidence, correct = [0.9, 0.5, 0.5, 0.5, 0.2], [1, 0, 1, 1, 0]
    curve = risk_coverage(confidence, correct)
    assert curve.coverage_K.tolist() == pytest.approx([0.2, 0.8, 1.0])
    assert curve.risk_K.tolist() == pytest.approx([0, 1 / 4, 2 / 5])
    orders = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    areas = [risk_coverage([5, 4, 3, 2, 1], [1, *order, 0]).area for order in orders]
    assert curve.area == pytest.approx(np.mean(areas))


def test_an_uninformative_confidence_has_the_error_rate_as_its_area() -> None:
    curve = risk_coverage([0.5] * 8, [1, 0, 0, 1, 1, 1, 1, 1])
    assert curve.area == pytest.approx(1 / 4)
    assert curve.coverage_K.tolist() == [1.0]
    assert risk_coverage([0.3, 0.3], [0.5, 1.0]).area == pytest.approx(1 / 4)


@pytest.mark.parametrize("seed", range(5))
def test_auroc_is_that_of_torchmetrics(seed: int) -> None:
    import torch  # here, because it takes seconds
    from torchmetrics.classification import BinaryAUROC

    rng = np.random.default_rng(seed)
    score = (rng.integers(0, 30, 300) / 30).astype(np.float32)
    correct = rng.random(300) < score
    expected = BinaryAUROC()(torch.tensor(score), torch.tensor(correct.astype(int))).item()
    assert auroc(score, correct) == pytest.approx(expected, abs=1e-6)


def test_within_auroc_by_hand() -> None:
    # Problem 0: right 0.9 and 0.2 against wrong 0.5: one of two pairs. Problem 1 has no pair, and
    # problem 2 a tie.
    problem = [0, 0, 0, 1, 1, 2, 2]
    confidence = [0.9, 0.5, 0.2, 0.1, 0.8, 0.4, 0.4]
    correct = [1, 0, 1, 1, 1, 0, 1]
    assert within_auroc(problem, confidence, correct) == pytest.approx(1.5 / 3)


def test_a_confidence_that_only_knows_the_problem_ranks_nothing_within() -> None:
    problem, correct = np.repeat(np.arange(4), 4), np.arange(16) % 5 < np.arange(16) // 4
    confidence = correct.reshape(4, 4).mean(axis=1)[problem]
    assert auroc(confidence, correct) > 0.7
    assert within_auroc(problem, confidence, correct) == 0.5


def test_within_auroc_without_a_pair_is_undefined() -> None:
    assert within_auroc([0, 0, 1], [0.1, 0.2, 0.3], [1, 1, 0]) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 5), st.booleans()), min_size=1, max_size=40
    )
)
def test_pairs_within_a_problem(answers: list[tuple[int, int, bool]]) -> None:
    problem, score, correct = (np.array(column) for column in zip(*answers, strict=True))
    wins_P, pairs_P = pairs_within(problem, score.astype(float), correct)
    for p in range(problem.max() + 1):
        right = score[(problem == p) & correct][:, None]
        wrong = score[(problem == p) & ~correct][None, :]
        assert wins_P[p] == (right > wrong).sum() + (right == wrong).sum() / 2
        assert pairs_P[p] == right.size * wrong.size


@pytest.mark.parametrize(
    ("metric", "confidence", "correct", "message"),
    [
        (auroc, [0.5, 0.6], [1, 1], "2 right and 0 wrong"),
        (auroc, [0.5, 0.6], [1, 0.5], "correct is 0.5"),
        (auroc, [np.nan, 0.6], [1, 0], "a confidence is nan"),
        (auroc, [], [], "0 confidences"),
        (risk_coverage, [np.nan, 0.6], [1, 0], "a confidence is nan"),
        (risk_coverage, [0.5], [1, 0], "1 confidences and 2 outcomes"),
        (risk_coverage, [0.5], [-1], "correct is -1.0"),
        (risk_coverage, [], [], "0 confidences"),
    ],
)
def test_refuses(metric, confidence, correct, message) -> None:
    with pytest.raises(CalibrationError, match=message):
        metric(confidence, correct)


def test_refuses_answers_of_no_problem() -> None:
    with pytest.raises(CalibrationError, match="1 problems and 2 confidences"):
        within_auroc([0], [0.5, 0.6], [0, 1])
