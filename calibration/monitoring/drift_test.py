"""A conformal test martingale: are the live readings exchangeable with the calibration's?

The readings of the calibration come first, then live readings, one by one. The p-value of a live
reading is its rank among all readings before it *and itself*, ties broken at random. If all are
exchangeable (independent draws from one distribution, for instance), these p-values are
independent and uniform (Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World,
theorem 11.1). Ranks among the calibration's readings alone would not be: one odd calibration would
shift them all, and a test of them alarms falsely in most long runs. The price is that live
readings join the reference, so that a small calibration bounds the evidence that there can ever
be. The conditional martingale of arXiv 2602.13848 pays another price: it sees no shift that is
smaller than the reference's own error.

A reading enters as its bin on a fixed grid (`calibration.monitoring.grids`): bins are functions of
the value alone, so that binned readings are exchangeable too, and counts per bin are all that must
be kept.

**Bets.** A game multiplies its wealth by f(p), with f >= 0 and integral 1, fixed before p from
earlier p-values alone: a martingale. With z the normal quantile of p, some games bet on a shift of
z by d, f = exp(d z - d^2 / 2), the likelihood ratio of a shifted normal distribution; some, that a
tail has doubled, as when a tenth of the questions is of a new kind, or more are declined; and one
on the histogram of the last p-values, and so on changes of any shape. Wealth is shared out over
games and starting times; see `calibration.monitoring.starts`. By Ville's inequality the sum ever
reaches 1 / delta with probability at most delta.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.monitoring.starts import LARGEST_WEALTH, Array, Mask, State, idle

SHIFTS = (-1.2, -0.6, -0.25, 0.25, 0.6, 1.2)
"""Games bet on these shifts, in standard deviations of the normal quantile."""
TAILS = (0.05, 0.1, 0.2)
"""Games bet that this share of p-values, at the low end or at the high end, has doubled."""
_SHARES = (0.4, 0.3, 0.3)
"""Of the wealth: all shifts, all tails, and the last p-values' histogram."""
_CELLS = 8
_PRIOR_READINGS = 40.0
_MEMORY_READINGS = 100.0
_START_READINGS = 50.0
"""Later starts count readings in this unit."""


class DriftTest:
    """The wealth of `size` tests (M) of one statistic, each on its own readings.

    Args:
        reference_MK: how many of the calibration's readings lie in each bin (K).
    """

    def __init__(self, reference_MK: Array) -> None:
        size, games = len(reference_MK), (len(SHIFTS), 2 * len(TAILS), 1)
        self._shift_G, self._tail_G = np.array(SHIFTS), np.array(TAILS)
        parts = [
            np.full(number, share / number) for number, share in zip(games, _SHARES, strict=True)
        ]
        self._parts_G = np.concatenate(parts)
        started = 1 - float(idle(np.zeros(1), _START_READINGS)[0])
        self.state: State = {
            "counts": reference_MK.astype(np.float64),
            "readings": np.zeros(size),
            "wealth": np.tile(started * self._parts_G, (size, 1)),
            "cells": np.full((size, _CELLS), _PRIOR_READINGS / _CELLS),
        }

    @property
    def wealth_M(self) -> Array:
        """The wealth of all games, and what lies idle."""
        return np.asarray(self.state["wealth"].sum(1) + self._idle())

    def add(self, bin_M: NDArray[np.intp], tie_M: Array, known_M: Mask | None = None) -> Array:
        """One reading of each test.

        Args:
            bin_M: the bin of the reading.
            tie_M: breaks ties; uniform on [0, 1) and independent of everything else.
            known_M: whether there is a reading; a test without one stays as it is, and its p-value
                means nothing. None if all have one.

        Returns:
            The p-values (M), in (0, 1); small where most earlier readings are larger.
        """
        before = dict(self.state)
        p_M = self._rank(bin_M, tie_M, 1.0 if known_M is None else known_M)
        self._bet(p_M)
        if known_M is not None:
            self.state["readings"] = np.where(known_M, self.state["readings"], before["readings"])
            for name in ("wealth", "cells"):
                self.state[name] = np.where(known_M[:, None], self.state[name], before[name])
        return p_M

    def _rank(self, bin_M: NDArray[np.intp], tie_M: Array, new_M: Array | Mask | float) -> Array:
        counts_MK = self.state["counts"]
        rows_M = np.arange(len(bin_M))
        counts_MK[rows_M, bin_M] += new_M
        below_M = np.where(np.arange(counts_MK.shape[1]) < bin_M[:, None], counts_MK, 0.0).sum(1)
        p_M = (below_M + tie_M * counts_MK[rows_M, bin_M]) / counts_MK.sum(1)
        # Exactly 0 and 1 come from rounding alone.
        return np.asarray(np.clip(p_M, 1e-12, 1 - 1e-12))

    def _bet(self, p_M: Array) -> None:
        s = self.state
        cell_M = np.minimum((p_M * _CELLS).astype(np.intp), _CELLS - 1)
        rows_M = np.arange(len(p_M))
        share_M = s["cells"][rows_M, cell_M] / s["cells"].sum(1)
        shifts_MG = np.exp(self._shift_G * special.ndtri(p_M)[:, None] - self._shift_G**2 / 2)
        rest_G = (1 - 2 * self._tail_G) / (1 - self._tail_G)
        low_MG = np.where(p_M[:, None] < self._tail_G, 2.0, rest_G)
        high_MG = np.where(1 - p_M[:, None] < self._tail_G, 2.0, rest_G)
        factor_MG = np.column_stack([shifts_MG, low_MG, high_MG, _CELLS * share_M])
        s["wealth"] = np.minimum(s["wealth"] * factor_MG, LARGEST_WEALTH)
        before_M = self._idle()
        s["readings"] = s["readings"] + 1
        s["wealth"] = s["wealth"] + (before_M - self._idle())[:, None] * self._parts_G
        fading = 1 - 1 / _MEMORY_READINGS
        prior = _PRIOR_READINGS / _CELLS
        s["cells"] = prior + (s["cells"] - prior) * fading
        s["cells"][rows_M, cell_M] += 1

    def _idle(self) -> Array:
        return idle(self.state["readings"], _START_READINGS)
