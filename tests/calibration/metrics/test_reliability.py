import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import (
    CalibrationError,
    ReliabilityBin,
    expected_calibration_error,
    positive_calibration_error,
    reliability_bins,
)
from tests.calibration.plain_metrics import adaptive_calibration_error

# Two bins of width 0.5: (0.1, 0.3; one right of two) and (0.6, 0.8, 1.0; one right of three).
CONFIDENCE = [0.1, 0.3, 0.6, 0.8, 1.0]
CORRECT = [0, 1, 1, 0, 0]

ANSWERS = st.lists(
    st.tuples(st.integers(0, 20).map(lambda i: i / 20), st.booleans()), min_size=1, max_size=40
)


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
    assert adaptive_calibration_error([0.25, 0.75], [0.25, 0.75]) == 0.0


@pytest.mark.parametrize("n_bins", [1, 10, 15])
@pytest.mark.parametrize("seed", range(5))
def test_ece_is_that_of_torchmetrics(seed: int, n_bins: int) -> None:
    import torch  # here, because it takes seconds
    from torchmetrics.classification import BinaryCalibrationError

    rng = np.random.default_rng(seed)
    confidence = rng.random(400, dtype=np.float32)
    correct = rng.random(400) < confidence**2
    theirs = BinaryCalibrationError(n_bins=n_bins, norm="l1")
    expected = theirs(torch.tensor(confidence), torch.tensor(correct.astype(int))).item()
    assert expected_calibration_error(confidence, correct, n_bins) == pytest.approx(
        expected, abs=1e-6
    )


def test_adaptive_ece_by_hand() -> None:
    # Halves of 2.5 answers; the one of 0.6 is half in each. Sums of correct - confidence:
    # -0.1 + 0.7 + 0.4 / 2 = 0.8, and 0.4 / 2 - 0.8 - 1.0 = -1.6.
    assert adaptive_calibration_error(CONFIDENCE, CORRECT, n_bins=2) == pytest.approx(2.4 / 5)


def test_adaptive_ece_of_bins_that_come_out_even() -> None:
    rng = np.random.default_rng(0)
    confidence, correct = np.sort(rng.random(120)), rng.random(120) < 0.5
    gaps = [abs((correct[i : i + 10] - confidence[i : i + 10]).mean()) for i in range(0, 120, 10)]
    assert adaptive_calibration_error(confidence, correct, 12) == pytest.approx(np.mean(gaps))


def test_adaptive_ece_of_one_confidence_is_its_distance_from_the_accuracy() -> None:
    assert adaptive_calibration_error([0.7] * 4, [1, 0, 0, 0]) == pytest.approx(0.45)


def test_tied_answers_are_right_to_the_same_degree() -> None:
    # Three of 0.5 with two right: the edge at 2 of 4 answers cuts them, wherever the wrong one is.
    for correct in ([1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 1, 1]):
        found = adaptive_calibration_error([0.5, 0.5, 0.5, 0.9], correct, n_bins=2)
        assert found == pytest.approx((2 * (2 / 3 - 0.5) + (2 / 3 - 0.5) + 0.1) / 4)


@given(ANSWERS, st.integers(1, 12))
def test_bounds(answers: list[tuple[float, bool]], n_bins: int) -> None:
    confidence, correct = (np.array(column, dtype=float) for column in zip(*answers, strict=True))
    bias = abs(confidence.mean() - correct.mean())
    ece = expected_calibration_error(confidence, correct, n_bins)
    adaptive = adaptive_calibration_error(confidence, correct, n_bins)
    assert 0 <= positive_calibration_error(confidence, correct, n_bins) <= ece + 1e-12
    # Bins can only add to what is left when all gaps cancel.
    assert bias - 1e-12 <= min(ece, adaptive)
    assert max(ece, adaptive) <= np.abs(confidence - correct).mean() + 1e-12
    if n_bins == 1:
        assert (ece, adaptive) == pytest.approx((bias, bias))


@pytest.mark.parametrize("metric", [expected_calibration_error, adaptive_calibration_error])
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([np.nan], [1], "confidence is nan"),
        ([0.5], [2], "correct is 2.0"),
        ([0.5], [0, 1], "1 confidences and 2 outcomes"),
        ([], [], "0 confidences and 0 outcomes"),
    ],
)
def test_refuses(metric, confidence, correct, message) -> None:
    with pytest.raises(CalibrationError, match=message):
        metric(confidence, correct)


@pytest.mark.parametrize("metric", [reliability_bins, adaptive_calibration_error])
def test_refuses_no_bins(metric) -> None:
    with pytest.raises(CalibrationError, match="n_bins is 0"):
        metric([0.5], [1], n_bins=0)
