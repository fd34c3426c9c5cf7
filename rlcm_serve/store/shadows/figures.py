"""The figures of a level's shadow runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy.orm import Session

from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.store.shadows.seen import counts


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


def shadow_figures(session: Session, monitor: Monitor, now: float) -> ShadowFigures:
    """The figures of a level, from the state of its shadow monitor and its rows."""
    found, test = counts(session, monitor, now), monitor.risk_monitor()
    low, high = test.interval()
    return ShadowFigures(
        questions=test.answers,
        drawn=sum(found.values()),
        **found,
        disagreement=test.risk(),
        low=low,
        high=high,
        log_wealth=test.log_wealth,
        threshold=-math.log(monitor.delta),
        above_at=monitor.alarmed,
    )
