"""What drift is measured against: the readings of a level's calibration problems.

Report data has them in the bins of `calibration.monitoring.grids`, one reading of each exchangeable
unit. Older report data has the confidences at the exit alone, as counts in wider bins over all
rollouts. Then live confidences are put into these bins too, and where problems have several
rollouts, the counts are scaled to the number of units: their noise is a little smaller than that of
as many single readings, which the test does not know.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel
from calibration.certificate.report_data import EXIT_BINS, EXIT_EDGES, ReportData
from calibration.monitoring.grids import bin_of, value_in
from calibration.monitoring.reference import middles
from rlcm_serve.monitoring.losses import SeenAnswer

_MIDDLES = (np.array(EXIT_EDGES[1:]) + np.array(EXIT_EDGES[:-1])) / 2
Counts = Mapping[str, list[int]]
"""Of each statistic, the number of units in each bin, for JSON. The bins are those of its grid, or
for the confidences of older report data those of `EXIT_EDGES`: then there are `EXIT_BINS`."""


def reference_of(
    certificate: Certificate, level: CertifiedLevel, report: ReportData | None
) -> dict[str, list[int]]:
    """The readings of a level's calibration units, in bins; only those that are known."""
    known = () if report is None else report.reference_at(level.alpha)
    if known:
        return {one.statistic: one.by_bin() for one in known}
    units = certificate.n_units
    declined = round((1 - level.share_answered) * units)
    reference = {"declined": [units - declined, declined]}
    counts = None if report is None else report.confidence_at(level.alpha)
    # With several samples, what is recorded is each sample's, and what is read live a share.
    if counts and sum(counts) and certificate.procedure.samples == 1:
        scale = min(1.0, units / sum(counts))
        reference["confidence"] = [round(count * scale) for count in counts]
    return reference


def values_of(reference: Counts) -> dict[str, NDArray[Any]]:
    """The readings themselves, for a drift monitor."""
    found = {}
    for name, counts in reference.items():
        values = _MIDDLES if _is_old(name, counts) else middles(name)[: len(counts)]
        found[name] = np.repeat(values, counts)
    return found


def live_values(reference: Counts, answer: SeenAnswer) -> dict[str, float]:
    """The live readings of an answer that have a reference, as values in its bins."""
    read = {
        "declined": 0.0 if answer.answered else 1.0,
        "confidence": answer.confidence,
        "tokens": float(answer.tokens),
        "familiarity": answer.familiarity,
    }
    found = {}
    for name, counts in reference.items():
        value = read[name]
        if value is None:
            continue
        if _is_old(name, counts):
            at = max(bisect.bisect_left(EXIT_EDGES, value) - 1, 0)
            found[name] = float(_MIDDLES[at])
        else:
            found[name] = value_in(name, bin_of(name, value))
    return found


def _is_old(name: str, counts: list[int]) -> bool:
    return name == "confidence" and len(counts) == EXIT_BINS
