import numpy as np
import pytest

from calibration import (
    CalibrationError,
    ReliabilityBin,
    auroc,
    brier_score,
    expected_calibration_error,
    positive_calibration_error,
    reliability_bins,
)
from calibration.metrics import risk_coverage

# Two bins of width 0.5: (0.1, 0.3; one right of two) and (0.6, 0.8, 1.0; one right of three).
CONFIDENCE = [0.1, 0.3, 0.6, 0.8, 1.0]
CORRECT = [0, 1, 1, 0, 0]


def test_reliability_bins() -> None:
    low, high = reliability_bins(CONFIDENCE, CORRECT, n_bins=2)
    assert low == ReliabilityBin(0.0, 0.5, 2, pytest.approx(0.2), 0.5)
    assert high == ReliabilityBin(0.5, 1.0, 3, pytest.approx(0.8), pytest.approx(1 / 3))


def test_an_edge_belongs_to_the_bin_above_and_1_to_the_last() -> None:
    bins = reliability_bins([0.0, 0.3, 0.7, 1.0], [0, 0, 0, 0], n_bins=10)
    assert [(b.low, b.count) for b in bins] == [(0.0, 1), (0.3, 1), (0.7, 1), (0.9, 1)]


def test_ece_and_pce() -> None:
    # Gaps: 0.3 under-, 0.8 - 1/3 overconfident.
    assert expected_calibration_error(CONFIDENCE, CORRECT, n_bins=2) == pytest.approx(
        (2 * 0.3 + 3 * (0.8 - 1 / 3)) / 5
    )
    assert positive_calibration_error(CONFIDENCE, CORRECT, n_bins=2) == pytest.approx(
        3 * (0.8 - 1 / 3) / 5
    )


def test_soft_outcomes() -> None:
    assert expected_calibration_error([0.25, 0.75], [0.25, 0.75]) == 0.0
    assert brier_score([0.25, 0.75], [0.5, 0.75]) == pytest.approx(0.0625 / 2)


def test_brier() -> None:
    assert brier_score(CONFIDENCE, CORRECT) == pytest.approx((0.01 + 0.49 + 0.16 + 0.64 + 1.0) / 5)


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


@pytest.mark.parametrize(
    ("metric", "confidence", "correct", "message"),
    [
        (brier_score, [0.5], [0, 1], "1 confidences and 2 outcomes"),
        (brier_score, [], [], "0 confidences and 0 outcomes"),
        (brier_score, [1.5], [1], "confidence is 1.5"),
        (expected_calibration_error, [np.nan], [1], "confidence is nan"),
        (expected_calibration_error, [0.5], [2], "correct is 2.0"),
        (auroc, [0.5, 0.6], [1, 1], "2 right and 0 wrong"),
        (auroc, [0.5, 0.6], [1, 0.5], "correct is 0.5"),
        (auroc, [np.nan, 0.6], [1, 0], "a confidence is nan"),
        (risk_coverage, [np.nan, 0.6], [1, 0], "a confidence is nan"),
        (risk_coverage, [0.5], [1, 0], "1 confidences and 2 outcomes"),
        (risk_coverage, [0.5], [-1], "correct is -1.0"),
        (risk_coverage, [], [], "0 confidences"),
    ],
)
def test_refuses(metric, confidence, correct, message) -> None:
    with pytest.raises(CalibrationError, match=message):
        metric(confidence, correct)


def test_refuses_no_bins() -> None:
    with pytest.raises(CalibrationError, match="n_bins is 0"):
        reliability_bins([0.5], [1], n_bins=0)
