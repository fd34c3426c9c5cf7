"""How each metric is named, ranked and written, in reports and in comparisons."""

from __future__ import annotations

from dataclasses import dataclass

from calibration.metrics.estimates import Estimate
from calibration.report_kit.tables import Cell, Rank, number_cell, share_cell
from calibration.report_kit.wording import excludes_zero, in_points, number_interval, signed


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric in tables."""

    title: str
    higher_is_better: bool = False
    is_share: bool = False

    def cell(self, estimate: Estimate, rank: Rank = "") -> Cell:
        """It with its interval below."""
        return share_cell(estimate, rank) if self.is_share else number_cell(estimate, rank=rank)

    def difference_cell(self, difference: Estimate) -> Cell:
        """A difference with its sign and interval, a share in points; bold if that excludes 0."""
        digits = 3
        if self.is_share:
            difference, digits = in_points(difference), 1
        bold: Rank = "best" if excludes_zero(difference) else ""
        return Cell(signed(difference, digits), number_interval(difference, digits), bold)


METRICS = {
    "accuracy": Metric("accuracy", higher_is_better=True, is_share=True),
    "ece": Metric("ECE"),
    "pce": Metric("PCE"),
    "adaptive_ece": Metric("adaptive ECE"),
    "brier": Metric("Brier"),
    "nll": Metric("NLL"),
    "auroc": Metric("AUROC", higher_is_better=True),
    "aurc": Metric("AURC"),
    "within_auroc": Metric("within-question AUROC", higher_is_better=True),
}
"""By their names in `RunMeasures`."""
COLUMNS = ("accuracy", "pce", "ece")
"""Metrics of the main table (RLCM Table 1), in its order."""
HIGHER_IS_BETTER = frozenset(name for name, metric in METRICS.items() if metric.higher_is_better)
