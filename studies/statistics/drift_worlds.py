"""Simulated services whose drift monitors test all four statistics of every question at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.monitoring.drift_test import DriftTest
from calibration.monitoring.grids import BINS, GRIDS, bin_of
from calibration.monitoring.starts import Array

INTERVAL = 32
ROLLOUTS = 4
"""Recorded for each calibration problem."""
Bins = dict[str, NDArray[np.intp]]
"""The bins of readings, by statistic."""

_MOST_TOKENS, _STEPS = 8000, 1000
_TOKEN_BINS = np.array([bin_of("tokens", tokens) for tokens in range(_MOST_TOKENS)])
_CONFIDENCE_BINS = np.array([bin_of("confidence", k / _STEPS) for k in range(_STEPS + 1)])


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked; the statistics of a question depend on each other through its difficulty.

    Attributes:
        harder: how much harder questions are, in standard deviations.
        unfamiliar: how much less familiar, in standard deviations.
        longer: how much more tokens the same questions take.
    """

    harder: float = 0.0
    unfamiliar: float = 0.0
    longer: float = 1.0

    def read(self, rng: np.random.Generator, shape: tuple[int, ...], rollouts: int = 1) -> Bins:
        """Readings of questions (`shape`), of several rollouts each (a last axis).

        Tokens are those of an exit at a checkpoint and of a short answer: a few values are common.
        """
        hard = rng.normal(self.harder, 1, (*shape, 1))
        known = 0.95 * rng.normal(-self.unfamiliar, 1, (*shape, 1)) - 0.31 * hard
        wide = (*shape, rollouts)
        confidence = special.expit(1.5 - hard + 0.5 * rng.normal(size=wide))
        checkpoints = 1 + rng.poisson(self.longer * np.exp(0.4 + 0.4 * hard), wide)
        tokens = np.minimum(INTERVAL * checkpoints + rng.integers(4, 7, wide), _MOST_TOKENS - 1)
        familiarity = np.broadcast_to(special.ndtr(known), wide)
        return {
            "familiarity": np.minimum(familiarity * BINS, BINS - 1).astype(np.intp),
            "confidence": _CONFIDENCE_BINS[np.rint(confidence * _STEPS).astype(np.intp)],
            "tokens": _TOKEN_BINS[tokens],
            "declined": (confidence < 0.3).astype(np.intp),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """At which live question each service (M) alarmed first, and by which statistic each did.

    Infinity if never.
    """

    alarm_M: Array
    by_statistic: dict[str, Array]


def drift_of_all(
    calibrated: Questions,
    asked: Questions,
    *,
    problems: int,
    steps: int,
    delta: float,
    size: int,
    is_pooled: bool = False,
) -> Found:
    """The alarms of services that test all four statistics, each at its share of delta.

    Args:
        calibrated: questions of the calibration.
        asked: questions of the service.
        problems: of the calibration.
        is_pooled: broken: the reference has all rollouts of each problem instead of one.
    """
    rng = np.random.default_rng(0)
    recorded = calibrated.read(rng, (size, problems), ROLLOUTS)
    tests, found = {}, {name: np.full(size, np.inf) for name in GRIDS}
    for name, bin_MPR in recorded.items():
        bins_MN = (bin_MPR if is_pooled else bin_MPR[:, :, :1]).reshape(size, -1)
        counts_MK = np.stack([np.bincount(row, minlength=BINS) for row in bins_MN])
        tests[name] = DriftTest(counts_MK.astype(float))
    for time in range(steps):
        read = asked.read(rng, (size,))
        for name, test in tests.items():
            test.add(read[name][:, 0], rng.random(size))
            alarmed_M = test.wealth_M * delta / len(tests) >= 1
            found[name][alarmed_M & np.isinf(found[name])] = time + 1
    return Found(np.min(list(found.values()), axis=0), found)
