"""Probes as the service reads them: of plain inputs, and several as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
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


def mean_probe(heads: Sequence[Probe]) -> Probe:
    """One probe whose log-odds are the mean of those of several with the same inputs.

    Its hidden units are theirs, side by side, with output weights divided by their number.
    """
    return Probe(
        hidden_weight=torch.cat([head.hidden_weight for head in heads]),
        hidden_bias=torch.cat([head.hidden_bias for head in heads]),
        output_weight=torch.cat([head.output_weight for head in heads], dim=1) / len(heads),
        output_bias=torch.stack([head.output_bias for head in heads]).mean(0),
        inputs=heads[0].inputs,
    )
