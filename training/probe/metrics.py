"""Metrics of a probe on problems that its fit did not use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from calibration.metrics.ranking import auroc
from calibration.metrics.reliability import expected_calibration_error
from rlcm_serve.engine.worker.probe import Probe
from training.probe.data import ProbeData


@dataclass(frozen=True, slots=True)
class ProbeMetrics:
    """Metrics of a probe on problems that the fit did not use.

    AUROC counts Y_b >= 1/2 as positive (the split of RLCM §3.3); ECE has 10 equal-width bins and
    compares with the soft target. `bce_floor` is the loss of a probe that knows every Y_b, and
    `bce_constant` the loss of the mean of the fitted targets. A metric that these problems leave
    undefined is None, and `undefined` says why, by the metric's name.
    """

    points: int
    problems: int
    bce: float
    bce_floor: float
    bce_constant: float | None
    auroc: float | None
    ece: float
    undefined: Mapping[str, str] = field(default_factory=dict)


def measure_probe(
    probe: Probe, data: ProbeData, on_N: Tensor, constant: float | None = None
) -> ProbeMetrics:
    """Metrics of a probe on some of the cuts.

    Args:
        on_N: mask over cuts.
        constant: the constant prediction to compare with; by default the mean target of these cuts.
    """
    target_N = data.target_N[on_N]
    with torch.inference_mode():
        logit_N = data.logit(probe, on_N)
        confidence_N = torch.sigmoid(logit_N).double().numpy()
    level = target_N.mean() if constant is None else torch.tensor(constant)
    soft_N = target_N.double().numpy()
    bce_constant = _cross_entropy(level, target_N)
    undefined = _undefined(target_N, level, bce_constant)
    return ProbeMetrics(
        points=len(target_N),
        problems=len(torch.unique(data.problem_N[on_N])),
        bce=binary_cross_entropy_with_logits(logit_N, target_N).item(),
        bce_floor=_cross_entropy(target_N, target_N),
        bce_constant=None if "bce_constant" in undefined else bce_constant,
        auroc=None if "auroc" in undefined else auroc(confidence_N, soft_N >= 0.5),
        ece=expected_calibration_error(confidence_N, soft_N),
        undefined=undefined,
    )


def _undefined(target_N: Tensor, level: Tensor, bce_constant: float) -> dict[str, str]:
    """Why metrics are undefined, by name."""
    reasons = {}
    if math.isinf(bce_constant):
        reasons["bce_constant"] = (
            f"every target of the fit is {level:g}, so as a constant it is infinitely wrong here"
        )
    is_right_N = target_N >= 0.5
    if is_right_N.all() or not is_right_N.any():
        side = "1/2 or more" if is_right_N.all() else "below 1/2"
        reasons["auroc"] = f"all {len(target_N)} targets are {side}, and AUROC compares two sides"
    return reasons


def _cross_entropy(confidence: Tensor, target_N: Tensor) -> float:
    """Mean in nats; infinite if a confidence of 0 or 1 is wrong; 0 · log 0 is 0, its limit."""
    right_N = torch.special.xlogy(target_N, confidence)
    wrong_N = torch.special.xlogy(1 - target_N, 1 - confidence)
    return float(-(right_N + wrong_N).mean())
