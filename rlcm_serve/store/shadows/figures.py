"""The figures of a level's shadow runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.store.answers.counts import Level
from rlcm_serve.store.shadows.counts import SHOWN


@dataclass(frozen=True, slots=True)
class ShadowFigures:
    """How often the full budget gives another answer; fields as in the wire type `ShadowNow`."""

    questions: int
    drawn: int
    dropped: int
    waiting: int
    missing: int
    agree: int
    disagree: int
    disagreement: float | None
    low: float
    high: float
    log_wealth: float
    threshold: float
    above_at: float | None


def shadow_figures(monitor: Monitor, counts: Mapping[Level, dict[str, int]]) -> ShadowFigures:
    """The figures of a level, from the state of its shadow monitor and the counts of all levels."""
    found = counts.get((monitor.certificate, monitor.alpha)) or dict.fromkeys(SHOWN, 0)
    test = monitor.risk_monitor()
    low, high = test.interval()
    return ShadowFigures(
        questions=test.answers,
        **found,
        disagreement=test.risk(),
        low=low,
        high=high,
        log_wealth=test.log_wealth,
        threshold=-math.log(monitor.delta),
        above_at=monitor.alarmed,
    )
