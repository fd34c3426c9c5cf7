"""False alarms of the risk monitor, and how often its interval misses, by simulation.

The full size is `python -m studies.statistics.monitoring`.
"""

import numpy as np
import pytest
from scipy.stats import binom

from calibration.monitoring.risk_monitor import RiskMonitors
from calibration.monitoring.risk_test import RiskTest
from calibration.monitoring.starts import Array, Mask
from studies.statistics import monitoring_worlds
from studies.statistics.monitoring_worlds import (
    World,
    adversary,
    misses,
    run,
    steady,
    two_kinds,
    varying,
)

DELTA, RUNS = 0.1, 300
MOST = float(binom.ppf(1 - 1e-4, RUNS, DELTA)) / RUNS
"""A share of false alarms that a valid monitor exceeds in one of 10,000 simulations."""

NULLS = {
    "all labelled": steady(0.1),
    "a fifth labelled, confidence knows": steady(0.1, share=0.2, skill=2),
    "confidence changes its meaning": varying(
        lambda time: 0.1, share=0.2, skill=lambda time: 2.0 if time % 200 < 100 else -2.0
    ),
    "worse kind audited more": two_kinds(0.1),
    "an adversary who knows the wealth": adversary(0.1, 0.5),
    "wrong answers go unlabelled": steady(0.1, share=0.5, missing=0.5),
}


@pytest.mark.parametrize("world", NULLS.values(), ids=list(NULLS))
def test_false_alarms_stay_below_delta(world: World) -> None:
    _, alarm_M = run(world, 1000, delta=DELTA, size=RUNS)
    assert np.isfinite(alarm_M).mean() <= MOST


class BetsAfterTheLabel(RiskTest):
    def add(self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask) -> None:
        self._wrong_M = audited_M & (loss_M > 0)
        super().add(loss_M, guess_M, share_M, audited_M)

    def _bets(self) -> Array:
        return super()._bets() * np.where(self._wrong_M, 1.5, 1.0)[:, None]


class TakesAllLabelsAsEqual(RiskTest):
    def add(self, loss_M: Array, guess_M: Array, share_M: Array, audited_M: Mask) -> None:
        super().add(loss_M, guess_M, np.full_like(share_M, 0.5), audited_M)


@pytest.mark.parametrize(
    ("broken", "world"),
    [(BetsAfterTheLabel, NULLS["all labelled"]), (TakesAllLabelsAsEqual, two_kinds(0.1))],
)
def test_a_broken_monitor_alarms_too_often(
    broken: type[RiskTest], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(RiskMonitors):
        def __init__(self, alpha: float, delta: float, size: int) -> None:
            super().__init__(alpha, delta, size)
            self.test = broken(alpha, size)

    monkeypatch.setattr(monitoring_worlds, "RiskMonitors", Broken)
    _, alarm_M = run(world, 1000, delta=DELTA, size=RUNS)
    assert np.isfinite(alarm_M).mean() > MOST


MOVING = {
    "steady": steady(0.1),
    "a fifth labelled": steady(0.1, share=0.2, skill=2),
    "waves": varying(lambda time: 0.15 + 0.1 * np.sin(time / 50), share=0.5),
    "worse kind audited more": two_kinds(0.1),
    "an adversary": adversary(0.1, 0.5),
    "wrong answers go unlabelled": steady(0.3, missing=0.5),
}


@pytest.mark.parametrize("world", MOVING.values(), ids=list(MOVING))
def test_the_interval_covers_at_all_times_together(world: World) -> None:
    missed, width = misses(world, 1000, delta=DELTA, size=RUNS)
    assert missed <= MOST
    assert width < 0.5


def test_an_interval_that_forgets_missing_labels_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgets(RiskMonitors):
        def add(
            self,
            loss_M: Array,
            confidence_M: Array,
            share_M: Array,
            audited_M: Mask,
            expired_M: Mask,
        ) -> None:
            loss_M = np.where(expired_M, 0.0, loss_M)
            super().add(loss_M, confidence_M, share_M, audited_M, np.zeros_like(expired_M))

    monkeypatch.setattr(monitoring_worlds, "RiskMonitors", Forgets)
    missed, _ = misses(steady(0.3, missing=0.5), 1000, delta=DELTA, size=RUNS)
    assert missed > 0.9


def test_the_interval_narrows_like_the_root_of_the_labels() -> None:
    widths = [misses(steady(0.1), steps, size=50)[1] for steps in (500, 2000)]
    assert 1.5 < widths[0] / widths[1] < 2.2
