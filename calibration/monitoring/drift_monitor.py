"""The monitor of one level without labels: have the readings moved since the calibration?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.monitoring.drift_test import DriftTest
from calibration.monitoring.grids import BINS, GRIDS, bin_of

_VERSION = 1
BLOCK = 200
"""Live readings per block of the display."""
_DEVIATIONS = 3.0
_OUTSIDE = math.erfc(_DEVIATIONS / math.sqrt(2))
AVERAGE_RUN_LENGTH = round(BLOCK / _OUTSIDE)
"""Readings until a block lies outside its band although nothing has moved, on average: 370
blocks. Blocks do not overlap, and their p-values are independent."""


@dataclass(frozen=True, slots=True)
class Band:
    """One statistic over a block of live readings, for display. It is no test.

    Attributes:
        name: of the statistic.
        readings: in the block; fewer than `BLOCK` while the first one fills.
        mean: of the live values in the block.
        reference_mean: of the calibration's values.
        rank: mean p-value of the block: 0.5 if nothing moved, smaller if values became smaller.
        low, high: the noise band of `rank`: three standard deviations around 0.5. If nothing has
            moved, a block is outside once in `AVERAGE_RUN_LENGTH` readings on average, and sooner
            or later every service will see that.
    """

    name: str
    readings: int
    mean: float
    reference_mean: float
    rank: float
    low: float
    high: float


class DriftMonitor:
    """Tests at any time whether live readings are exchangeable with the calibration's.

    An alarm is false with probability at most `delta`, over all statistics and all time; delta is
    divided equally over the statistics. `calibration.monitoring.drift_test` has the proof. An alarm
    does not say that the risk is broken, and no alarm does not say that it holds: questions can
    become harder with the same readings. Readings whose law moves with the time of day, or that
    come in related groups, are not exchangeable, and are found.

    Memory is bounded: counts in 256 bins per statistic. The same readings give the same state.

    Args:
        reference: values of the calibration by statistic: `familiarity`, `confidence`, `tokens`,
            `declined` (0 or 1). Values that are not numbers are left out, and statistics without
            values are not tested.
        delta: probability of a false alarm that is accepted, in (0, 1).
        seed: a secret that breaks ties among equal readings, by a keyed hash.

    Raises:
        CalibrationError: delta is not in (0, 1), or a statistic is unknown.
    """

    def __init__(
        self, reference: Mapping[str, NDArray[Any]], delta: float, seed: bytes | int
    ) -> None:
        if not 0 < delta < 1:
            raise CalibrationError(f"delta = {delta} is not in (0, 1)")
        unknown = sorted(set(reference) - set(GRIDS))
        if unknown:
            raise CalibrationError(f"statistic {unknown[0]!r} is unknown: give {', '.join(GRIDS)}")
        key = seed if isinstance(seed, bytes) else str(seed).encode()
        self._key = blake2b(key, digest_size=32).digest()
        finite = {name: _finite(reference[name]) for name in GRIDS if name in reference}
        self._statistics = {
            name: _Statistic(name, values) for name, values in finite.items() if len(values)
        }
        self._log_bar = math.log(len(self._statistics) / delta) if self._statistics else math.inf

    def add(self, values: Mapping[str, float]) -> None:
        """The readings of one live answer, in answer order.

        Args:
            values: by statistic. Those that are missing or not numbers, and statistics without a
                reference, are passed over.
        """
        for name, statistic in self._statistics.items():
            value = values.get(name, math.nan)
            if math.isfinite(value):
                statistic.add(value, self._tie(name, statistic.readings), self._log_bar)

    @property
    def alarmed(self) -> tuple[str, ...]:
        """The statistics that have moved: their wealth has ever reached its bar."""
        return tuple(name for name, s in self._statistics.items() if s.alarmed)

    @property
    def log_wealth(self) -> dict[str, float]:
        """Natural logarithm of each statistic's wealth; it alarms at log(statistics / delta)."""
        return {name: math.log(s.test.wealth_M[0]) for name, s in self._statistics.items()}

    def bands(self) -> tuple[Band, ...]:
        """The last full block of each statistic, or the first one while it fills, for display."""
        return tuple(s.band() for s in self._statistics.values() if s.readings)

    def state(self) -> dict[str, Any]:
        """Everything that later readings need beside the arguments, for JSON."""
        return {
            "version": _VERSION,
            "statistics": {name: s.state() for name, s in self._statistics.items()},
        }

    @classmethod
    def from_state(
        cls,
        reference: Mapping[str, NDArray[Any]],
        delta: float,
        seed: bytes | int,
        state: Mapping[str, Any],
    ) -> Self:
        """The monitor that `state()` describes, with the arguments it was made with.

        Raises:
            CalibrationError: the state is of another version, or of other statistics.
        """
        monitor = cls(reference, delta, seed)
        stored = state.get("statistics", {})
        if state.get("version") != _VERSION or set(stored) != set(monitor._statistics):
            raise CalibrationError(
                f"the monitor's state has version {state.get('version')} and the statistics "
                f"{', '.join(stored) or 'none'}; this one has version {_VERSION} and "
                f"{', '.join(monitor._statistics) or 'none'}: start a new monitor"
            )
        for name, statistic in monitor._statistics.items():
            statistic.restore(stored[name])
        return monitor

    def _tie(self, name: str, number: int) -> float:
        digest = blake2b(f"{name} {number}".encode(), digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53


class _Statistic:
    """One statistic: its test, and its blocks for the display."""

    def __init__(self, name: str, reference: NDArray[np.float64]) -> None:
        bins = [bin_of(name, value) for value in reference.tolist()]
        self._counts = np.bincount(bins, minlength=BINS).astype(np.float64)
        self.name, self.test = name, DriftTest(self._counts[None].copy())
        self.alarmed = False
        self._reference_mean = float(reference.mean())
        self._filling = self._shown = (0.0, 0.0, 0.0)  # readings, sum of p-values, sum of values

    @property
    def readings(self) -> int:
        """Live readings so far."""
        return int(self.test.state["readings"][0])

    def add(self, value: float, tie: float, log_bar: float) -> None:
        p_M = self.test.add(np.array([bin_of(self.name, value)]), np.array([tie]))
        self.alarmed |= bool(math.log(self.test.wealth_M[0]) >= log_bar)
        n, ranks, values = self._filling
        self._filling = (n + 1, ranks + float(p_M[0]), values + value)
        if self._filling[0] == BLOCK:
            self._shown, self._filling = self._filling, (0.0, 0.0, 0.0)

    def band(self) -> Band:
        n, ranks, values = self._shown if self._shown[0] else self._filling
        noise = _DEVIATIONS / math.sqrt(12 * n)
        low, high = max(0.5 - noise, 0.0), min(0.5 + noise, 1.0)
        return Band(self.name, int(n), values / n, self._reference_mean, ranks / n, low, high)

    def state(self) -> dict[str, Any]:
        """Live counts are sparse: pairs of bin and count."""
        stored = {key: value_M[0].tolist() for key, value_M in self.test.state.items()}
        live = self.test.state["counts"][0] - self._counts
        stored["counts"] = [[int(k), int(live[k])] for k in np.flatnonzero(live)]
        return stored | {
            "alarmed": self.alarmed,
            "filling": list(self._filling),
            "shown": list(self._shown),
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        for key in ("readings", "wealth", "cells"):
            self.test.state[key] = np.array([stored[key]], dtype=np.float64)
        for place, count in stored["counts"]:
            self.test.state["counts"][0, place] += count
        self.alarmed = bool(stored["alarmed"])
        self._filling, self._shown = tuple(stored["filling"]), tuple(stored["shown"])


def _finite(values: NDArray[Any]) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = np.asarray(values, dtype=np.float64).ravel()
    return np.asarray(numbers[np.isfinite(numbers)])
