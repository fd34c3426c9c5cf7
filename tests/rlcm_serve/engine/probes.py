"""Probes for tests."""

from __future__ import annotations

from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.worker.probe import PROBE_FOLDER, Probe


def shipped_probe() -> Probe:
    """The embedded model's probe, which reads the state and the statistics of the tokens."""
    return Probe.load(EMBEDDED_MODEL / PROBE_FOLDER)
