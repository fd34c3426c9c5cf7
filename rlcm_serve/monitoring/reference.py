"""What drift is measured against: the readings of a level's calibration problems.

Report data has the confidences at the exit as counts in bins, over all rollouts, and the share
answered. So live confidences are put into the same bins. Where problems have several rollouts, the
counts are scaled to the number of independent units: their noise is then a little smaller than that
of as many single readings, which the test does not know.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel
from calibration.certificate.report_data import EXIT_EDGES, ReportData

_MIDDLES = (np.array(EXIT_EDGES[1:]) + np.array(EXIT_EDGES[:-1])) / 2
Counts = Mapping[str, list[int]]
"""Of each statistic, the number of units in each bin, for JSON."""


def reference_of(
    certificate: Certificate, level: CertifiedLevel, report: ReportData | None
) -> dict[str, list[int]]:
    """The readings of a level's calibration units, in bins; only those that are known.

    Confidences are known for one sample alone: with several, what is recorded is each sample's, and
    what is read live is the share of the vote.
    """
    units = certificate.n_units
    declined = round((1 - level.share_answered) * units)
    reference = {"declined": [units - declined, declined]}
    counts = None if report is None else report.confidence_at(level.alpha)
    if counts and sum(counts) and certificate.procedure.samples == 1:
        scale = min(1.0, units / sum(counts))
        reference["confidence"] = [round(count * scale) for count in counts]
    return reference


def values_of(reference: Counts) -> dict[str, NDArray[Any]]:
    """The readings themselves, for a drift monitor."""
    found = {}
    for name, counts in reference.items():
        middles = _MIDDLES if name == "confidence" else np.arange(len(counts), dtype=float)
        found[name] = np.repeat(middles, counts)
    return found


def live_values(*, answered: bool, confidence: float) -> dict[str, float]:
    """A live reading, in the bins of the reference."""
    at = max(bisect.bisect_left(EXIT_EDGES, confidence) - 1, 0)
    return {"declined": 0.0 if answered else 1.0, "confidence": float(_MIDDLES[at])}
