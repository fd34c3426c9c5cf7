"""Losses beyond GRPO's: C²GSPG's confidence and its regulariser (arXiv 2509.23129)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy

_EDGE = 1e-6
"""How near to 0 and 1 a confidence counts: beyond, its logarithm runs away."""


def sequence_confidence(logp_RT: Tensor, mask_RT: Tensor) -> Tensor:
    """c(y) = exp((1/T) Σ_t log π(y_t | x, y_<t)), over the tokens that `mask_RT` keeps; shape (R,).

    The normalised sequence probability: the geometric mean of the tokens' probabilities.
    """
    kept_RT = mask_RT.to(logp_RT.dtype)
    return ((logp_RT * kept_RT).sum(1) / kept_RT.sum(1).clamp(min=1)).exp()


def confidence_regulariser(confidence_R: Tensor, right_R: Tensor) -> Tensor:
    """-mean of r log c + (1 - r) log(1 - c), r in {0, 1} whether the answer is right; a scalar.

    With binary rewards its gradient has the direction of the group sequence policy gradient's
    Â ∇ log c: c rises where the answer is right, and falls where it is wrong. So nothing is
    clipped and no reward is reshaped, which the paper does for other rewards.
    """
    inside_R = confidence_R.clamp(_EDGE, 1 - _EDGE)
    return binary_cross_entropy(inside_R, right_R.to(inside_R.dtype))
