"""A probe of standardised inputs, as the service reads it: on plain inputs."""

from __future__ import annotations

from torch import Tensor, nn

from rlcm_serve.engine.worker.probe import STATE_ALONE, Probe, ProbeInputs


def plain_probe(
    inner: nn.Linear,
    outer: nn.Linear,
    mean_I: Tensor,
    scale_I: Tensor,
    inputs: ProbeInputs = STATE_ALONE,
) -> Probe:
    """Folds the standardisation (input - mean) / scale into the first layer."""
    weight_WI = inner.weight / scale_I
    return Probe(
        hidden_weight=weight_WI,
        hidden_bias=inner.bias - weight_WI @ mean_I,
        output_weight=outer.weight,
        output_bias=outer.bias,
        inputs=inputs,
    )
