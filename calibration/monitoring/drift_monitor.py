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
        of_all = [one.reference_K for one in self._statistics.values()]
        self._test = DriftTest(np.array(of_all).reshape(len(of_all), BINS))
        self._log_bar = math.log(len(self._statistics) / delta) if self._statistics else math.inf

    def add(self, values: Mapping[str, float]) -> None:
        """The readings of one live answer, in answer order.

        Args:
            values: by statistic. Those that are missing, NaN or infinite, and statistics without a
                reference, are passed over.
        """
        read = [values.get(name, math.nan) for name in self._statistics]
        known = [math.isfinite(value) for value in read]
        if not any(known):
            return
        numbers = self._test.state["readings"].astype(int).tolist()
        bins, ties = [], []
        for name, value, is_known, number in zip(
            self._statistics, read, known, numbers, strict=True
        ):
            bins.append(bin_of(name, value) if is_known else 0)
            ties.append(self._tie(name, number) if is_known else 0.0)
        all_known = None if all(known) else np.array(known)
        p_values = self._test.add(np.array(bins), np.array(ties), all_known).tolist()
        wealth = self._test.wealth_M.tolist()
        for at, statistic in enumerate(self._statistics.values()):
            if known[at]:
                statistic.alarmed |= math.log(wealth[at]) >= self._log_bar
                statistic.show(p_values[at], read[at])

    @property
    def alarmed(self) -> tuple[str, ...]:
        """The statistics that have moved: their wealth has ever reached its bar."""
        return tuple(name for name, s in self._statistics.items() if s.alarmed)

    @property
    def log_wealth(self) -> dict[str, float]:
        """Natural logarithm of each statistic's wealth; it alarms at log(statistics / delta)."""
        wealth = self._test.wealth_M.tolist()
        return dict(zip(self._statistics, map(math.log, wealth), strict=True))

    def bands(self) -> tuple[Band, ...]:
        """The last full block of each statistic, or the first one while it fills, for display."""
        return tuple(s.band() for s in self._statistics.values() if s.has_readings)

    def state(self) -> dict[str, Any]:
        """Everything that later readings need beside the arguments, for JSON."""
        tests = enumerate(self._statistics.items())
        return {
            "version": _VERSION,
            "statistics": {name: self._stored(at) | one.state() for at, (name, one) in tests},
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
        for at, (name, statistic) in enumerate(monitor._statistics.items()):
            monitor._restore(at, stored[name])
            statistic.restore(stored[name])
        return monitor

    def _stored(self, at: int) -> dict[str, Any]:
        """The test of one statistic. Live counts are sparse: pairs of bin and count."""
        stored = {key: value_M[at].tolist() for key, value_M in self._test.state.items()}
        reference_K = list(self._statistics.values())[at].reference_K
        live_K = self._test.state["counts"][at] - reference_K
        stored["counts"] = [[int(k), int(live_K[k])] for k in np.flatnonzero(live_K)]
        return stored

    def _restore(self, at: int, stored: Mapping[str, Any]) -> None:
        for key in ("readings", "wealth", "cells"):
            self._test.state[key][at] = stored[key]
        for place, count in stored["counts"]:
            self._test.state["counts"][at, place] += count

    def _tie(self, name: str, number: int) -> float:
        digest = blake2b(f"{name} {number}".encode(), digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53


class _Statistic:
    """One statistic: its reference, whether it alarmed, and its blocks for the display."""

    def __init__(self, name: str, reference: NDArray[np.float64]) -> None:
        values, counts = np.unique(reference, return_counts=True)  # a service makes it often
        bins = [bin_of(name, value) for value in values.tolist()]
        self.reference_K = np.bincount(bins, counts, BINS).astype(np.float64)
        self.alarmed = False
        self._name = name
        self._reference_mean = float(reference.mean())
        self._filling = self._shown = (0.0, 0.0, 0.0)  # readings, sum of p-values, sum of values

    def show(self, p_value: float, value: float) -> None:
        """Adds a reading to the display."""
        n, ranks, values = self._filling
        self._filling = (n + 1, ranks + p_value, values + value)
        if self._filling[0] == BLOCK:
            self._shown, self._filling = self._filling, (0.0, 0.0, 0.0)

    @property
    def has_readings(self) -> bool:
        """Whether there is a block to show."""
        return bool(self._shown[0] or self._filling[0])

    def band(self) -> Band:
        n, ranks, values = self._shown if self._shown[0] else self._filling
        noise = _DEVIATIONS / math.sqrt(12 * n)
        low, high = max(0.5 - noise, 0.0), min(0.5 + noise, 1.0)
        return Band(self._name, int(n), values / n, self._reference_mean, ranks / n, low, high)

    def state(self) -> dict[str, Any]:
        return {
            "alarmed": self.alarmed,
            "filling": list(self._filling),
            "shown": list(self._shown),
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        self.alarmed = bool(stored["alarmed"])
        self._filling, self._shown = tuple(stored["filling"]), tuple(stored["shown"])


def _finite(values: NDArray[Any]) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = np.asarray(values, dtype=np.float64).ravel()
    return np.asarray(numbers[np.isfinite(numbers)])
