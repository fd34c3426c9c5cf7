"""A probe of standardised states, as the service reads it: on plain states."""

from __future__ import annotations

from torch import Tensor, nn

from rlcm_serve.engine.worker.probe import Probe


def plain_probe(inner: nn.Linear, outer: nn.Linear, mean_H: Tensor, scale_H: Tensor) -> Probe:
    """Folds the standardisation (state - mean) / scale into the first layer."""
    weight_WH = inner.weight / scale_H
    return Probe(
        hidden_weight=weight_WH,
        hidden_bias=inner.bias - weight_WH @ mean_H,
        output_weight=outer.weight,
        output_bias=outer.bias,
    )
