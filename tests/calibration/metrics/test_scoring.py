import numpy as np
import pytest

from calibration import CalibrationError, brier_score
from tests.calibration.plain_metrics import negative_log_likelihood


def test_brier_by_hand() -> None:
    confidence, correct = [0.1, 0.3, 0.6, 0.8, 1.0], [0, 1, 1, 0, 0]
    assert brier_score(confidence, correct) == pytest.approx((0.01 + 0.49 + 0.16 + 0.64 + 1.0) / 5)
    assert brier_score([0.25, 0.75], [0.5, 0.75]) == pytest.approx(0.0625 / 2)


def test_nll_by_hand() -> None:
    found = negative_log_likelihood([0.25, 0.25, 0.8], [1, 0, 1])
    assert found == pytest.approx(-(np.log(0.25) + np.log(0.75) + np.log(0.8)) / 3)
    assert negative_log_likelihood([0.5], [0.3]) == pytest.approx(np.log(2))


def test_being_sure_and_wrong_has_its_price() -> None:
    assert negative_log_likelihood([1.0], [0]) == pytest.approx(-np.log(1e-6))
    assert negative_log_likelihood([0.0], [1]) == pytest.approx(-np.log(1e-6))
    assert negative_log_likelihood([0.0, 1.0], [0, 1]) == pytest.approx(0, abs=1.1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_torch(seed: int) -> None:
    import torch  # here, because it takes seconds
    from torchmetrics.regression import MeanSquaredError

    rng = np.random.default_rng(seed)
    confidence = rng.random(300)
    correct = (rng.random(300) < confidence).astype(float)
    inputs = torch.tensor(confidence), torch.tensor(correct)
    assert brier_score(confidence, correct) == pytest.approx(
        MeanSquaredError()(*inputs).item(), rel=1e-6
    )
    assert negative_log_likelihood(confidence, correct) == pytest.approx(
        torch.nn.functional.binary_cross_entropy(*inputs).item()
    )


@pytest.mark.parametrize("metric", [brier_score, negative_log_likelihood])
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5], [0, 1], "1 confidences and 2 outcomes"),
        ([], [], "0 confidences and 0 outcomes"),
        ([1.5], [1], "confidence is 1.5"),
        ([0.5], [np.nan], "correct is nan"),
    ],
)
def test_refuses(metric, confidence, correct, message) -> None:
    with pytest.raises(CalibrationError, match=message):
        metric(confidence, correct)
