"""C²GSPG's confidence and regulariser."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.rl.rewards.losses import confidence_regulariser, sequence_confidence


def test_confidence_is_the_geometric_mean_of_the_tokens_probabilities() -> None:
    logp_RT = torch.tensor([[0.5, 0.25, 0.9], [0.2, 0.6, 0.1]]).log()
    mask_RT = torch.tensor([[1, 1, 1], [1, 1, 0]])
    expected = [(0.5 * 0.25 * 0.9) ** (1 / 3), (0.2 * 0.6) ** (1 / 2)]
    assert sequence_confidence(logp_RT, mask_RT).tolist() == pytest.approx(expected)


def test_the_regulariser_is_the_mean_binary_cross_entropy() -> None:
    loss = confidence_regulariser(torch.tensor([0.8, 0.3]), torch.tensor([1.0, 0.0]))
    assert loss.item() == pytest.approx(-(math.log(0.8) + math.log(0.7)) / 2)


def test_a_confidence_of_1_that_is_wrong_costs_much_and_stays_finite() -> None:
    loss = confidence_regulariser(torch.tensor([1.0]), torch.tensor([0.0]))
    assert 10 < loss.item() < 20


@given(st.lists(st.floats(-4, -0.01), min_size=1, max_size=6), st.booleans())
def test_it_pulls_the_way_the_policy_gradient_pushes(logps: list[float], right: bool) -> None:
    """Both raise c where the answer is right and lower it where it is wrong, token by token."""
    logp_RT = torch.tensor([logps], requires_grad=True)
    confidence_R = sequence_confidence(logp_RT, torch.ones_like(logp_RT))
    confidence_regulariser(confidence_R, torch.tensor([float(right)])).backward()
    assert logp_RT.grad is not None
    assert bool((logp_RT.grad < 0).all()) == right
    # The gradient of r log c + (1 - r) log (1 - c), by hand.
    c = confidence_R.item()
    by_hand = -1 / len(logps) if right else c / (1 - c) / len(logps)
    assert logp_RT.grad[0].tolist() == pytest.approx([by_hand] * len(logps), rel=1e-3)


def test_padding_has_no_gradient() -> None:
    logp_RT = torch.full((1, 3), -1.0, requires_grad=True)
    confidence_R = sequence_confidence(logp_RT, torch.tensor([[1, 1, 0]]))
    confidence_regulariser(confidence_R, torch.ones(1)).backward()
    assert logp_RT.grad is not None
    assert logp_RT.grad[0, 2] == 0
    assert (logp_RT.grad[0, :2] != 0).all()
