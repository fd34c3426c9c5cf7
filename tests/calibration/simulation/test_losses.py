import numpy as np
import pytest

from calibration import CalibrationError, PValue, p_values, upper_bounds
from calibration.simulation.losses import Losses


def test_a_ratio_by_hand() -> None:
    losses = Losses(
        np.array([[1.0, 0.0, 0.0], [0.5, 0.25, 0.0]]), np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    )
    assert (losses.n_units, losses.n_policies) == (2, 3)
    assert losses.is_ratio
    assert losses.total_loss_T.tolist() == [1.5, 0.25, 0.0]
    assert losses.total_weight_T.tolist() == [2.0, 1.0, 0.0]
    # Nothing answered: no risk, which counts as the worst.
    assert losses.risk_T.tolist() == [0.75, 0.25, 1.0]


def test_a_mean_needs_no_memory_for_weights() -> None:
    losses = Losses.unweighted(np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.0]]))
    assert not losses.is_ratio
    assert losses.weight_UT.strides == (0, 0)
    assert losses.weight_UT.tolist() == [[1.0, 1.0]] * 3
    assert losses.total_weight_T.tolist() == [3.0, 3.0]
    assert losses.risk_T.tolist() == [0.5, 0.0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_small_means_are_no_ratios(shape: tuple[int, int]) -> None:
    losses = Losses.unweighted(np.zeros(shape))
    assert not losses.is_ratio
    assert not losses.select(np.array([0])).is_ratio


def test_binary_means_every_value() -> None:
    # More than one block of values is looked at.
    loss_UT = np.tile(np.array([0.0, 1.0]), (3000, 250))
    assert Losses.unweighted(loss_UT).binary
    assert Losses(loss_UT, np.ones_like(loss_UT)).binary
    odd_UT = loss_UT.copy()
    odd_UT[-1, -1] = 0.5
    assert not Losses.unweighted(odd_UT).binary
    assert not Losses(loss_UT, odd_UT).binary
    assert not Losses(np.zeros_like(odd_UT), odd_UT).binary


def test_binary_is_looked_up_once() -> None:
    losses = Losses.unweighted(np.ones((2, 2)))
    assert losses.binary
    losses.loss_UT[0, 0] = 0.5
    assert losses.binary


def test_select_keeps_order_and_kind() -> None:
    loss_UT = np.arange(6.0).reshape(2, 3) / 6
    mean = Losses.unweighted(loss_UT).select(np.array([2, 0]))
    assert mean.loss_UT.tolist() == loss_UT[:, [2, 0]].tolist()
    assert not mean.is_ratio
    ratio = Losses(loss_UT, loss_UT + 0.1).select(np.array([False, True, False]))
    assert ratio.loss_UT.tolist() == loss_UT[:, 1:2].tolist()
    assert ratio.weight_UT.tolist() == (loss_UT[:, 1:2] + 0.1).tolist()


@pytest.mark.parametrize(
    ("loss", "weight"), [(np.zeros((2, 3)), np.ones((2, 2))), (np.zeros(3), np.ones(3))]
)
def test_shapes_are_checked(loss: np.ndarray, weight: np.ndarray) -> None:
    with pytest.raises(CalibrationError, match="give units x policies for both"):
        Losses(loss, weight)


@pytest.mark.parametrize(
    ("loss", "weight", "said"),
    [
        (3.0, 3.0, "a loss is 3 with the weight 3"),
        (0.6, 0.5, "a loss is 0.6 with the weight 0.5"),
        (-0.1, 1.0, "a loss is -0.1 with the weight 1"),
        (np.nan, 1.0, "a loss is nan with the weight 1"),
    ],
)
@pytest.mark.parametrize("kind", [kind for kind in PValue if kind is not PValue.BINOMIAL])
def test_no_test_takes_losses_out_of_their_range(
    kind: PValue, loss: float, weight: float, said: str
) -> None:
    """With losses of whole groups that nobody divided by a size, every test promised too much."""
    losses = Losses(np.array([[0.0], [loss]]), np.array([[1.0], [weight]]))
    with pytest.raises(CalibrationError, match=said):
        p_values(losses, [0.1], kind)
    with pytest.raises(CalibrationError, match=said):
        upper_bounds(losses, 0.1, kind)


def test_sums_may_be_rounded() -> None:
    Losses(np.array([[sum([0.1] * 10)]]), np.array([[1 + 1e-12]])).require_ranges()
