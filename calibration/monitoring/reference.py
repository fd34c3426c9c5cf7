"""What drift is measured against: readings of the calibration, counted in bins."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.monitoring.grids import BINS, GRIDS, bin_of, value_in


@dataclass(frozen=True, slots=True)
class ReferenceCounts:
    """One statistic of the calibration problems under one policy, one reading of each unit.

    The readings are as independent as the units, so that live readings of a service that has not
    moved are exchangeable with them.

    Attributes:
        statistic: one of `calibration.monitoring.grids.GRIDS`.
        counts: pairs of a bin of its grid and the number of units in it, by rising bin.

    Raises:
        ValueError: the statistic is unknown, or these are no counts of bins.
    """

    statistic: str
    counts: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.statistic not in GRIDS:
            raise ValueError(f"unknown statistic {self.statistic!r}")
        bins = [pair[0] for pair in self.counts]
        pairs = all(len(pair) == 2 and pair[1] > 0 for pair in self.counts)
        if not pairs or bins != sorted(set(bins)) or not set(bins) <= set(range(BINS)):
            raise ValueError(f"{self.counts} are no counts of bins from 0 to {BINS - 1}")

    @classmethod
    def of(cls, statistic: str, values: NDArray[Any]) -> Self:
        """The counts of some values."""
        bins = [bin_of(statistic, value) for value in values.tolist()]
        found, counts = np.unique(np.array(bins, dtype=np.intp), return_counts=True)
        return cls(statistic, tuple(zip(found.tolist(), counts.tolist(), strict=True)))

    def by_bin(self) -> list[int]:
        """The number of units in every bin of the grid."""
        known = dict(self.counts)
        return [known.get(place, 0) for place in range(BINS)]


def middles(statistic: str) -> NDArray[np.float64]:
    """A value in each bin of a statistic's grid."""
    return np.array([value_in(statistic, place) for place in range(BINS)])
