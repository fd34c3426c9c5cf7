"""Probes for tests."""

from __future__ import annotations

from dataclasses import replace

import torch

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, STATE_AND_TOKENS, Probe
from rlcm_serve.engine.worker.statistics import STATISTICS


def probe_of_both() -> Probe:
    """The embedded model's probe, which also reads the statistics, with weights of chance."""
    shipped = Probe.load(EMBEDDED_MODEL / PROBE_FOLDER)
    draw = torch.Generator().manual_seed(0)
    width = len(shipped.hidden_bias)
    weight_WS = 0.05 * torch.randn(width, len(STATISTICS), generator=draw)
    return replace(
        shipped,
        hidden_weight=torch.cat((shipped.hidden_weight, weight_WS), dim=1),
        inputs=STATE_AND_TOKENS,
    )
