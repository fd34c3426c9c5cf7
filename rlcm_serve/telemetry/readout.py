"""Metrics as numbers, for calculations in this process."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.samples import Sample


class Readout:
    """All series of a registry at one moment.

    Args:
        families: the metric families that a registry collects.
        uptime: seconds since the registry was created.
    """

    def __init__(self, families: Iterable[Metric], uptime: float) -> None:
        self.uptime = uptime
        self._series: dict[str, list[Sample]] = {}
        for family in families:
            for sample in family.samples:
                self._series.setdefault(sample.name, []).append(sample)

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series with this name and these labels; 0 if there are none."""
        return sum(
            series.value
            for series in self._series.get(name, ())
            if labels.items() <= series.labels.items()
        )

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The series with this name, by the values of these labels; name all of its labels."""
        return {
            tuple(series.labels[label] for label in labels): series.value
            for series in self._series.get(name, ())
        }

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """The counts of a family with a single label."""
        return {value: round(count) for (value,), count in self.by(name, label).items()}

    def histogram(self, name: str, **labels: str) -> tuple[int, ...]:
        """The counts per bucket, summed over the histograms with this name and these labels.

        The last bucket has no upper bound.
        """
        bounds = {bound for (bound,) in self.by(f"{name}_bucket", "le")}
        counts = [
            round(self.total(f"{name}_bucket", **labels, le=bound))
            for bound in sorted(bounds, key=float)
        ]
        return tuple(count - before for count, before in zip(counts, [0, *counts], strict=False))
