"""Simulated services: losses, confidences, audit draws and missing labels, for many monitors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.monitoring.risk_monitor import RiskMonitors

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer of each service (M)."""

    loss_M: Array
    confidence_M: Array
    share_M: Array
    audited_M: Mask
    expired_M: Mask
    risk_M: Array
    """The mean of the loss, given everything before the answer."""


World = Callable[[int, RiskMonitors, np.random.Generator], Answers]
"""The answers at a time, from the time, the monitors so far, and randomness."""


def steady(risk: float, *, share: float = 1.0, missing: float = 0.0, skill: float = 0.0) -> World:
    """Independent answers of one risk.

    Args:
        risk: of every answer.
        share: drawn for audit.
        missing: of the wrong answers' labels; right ones all come.
        skill: how well the confidence ranks the answers; 0 knows nothing.
    """

    def world(_: int, monitors: RiskMonitors, rng: np.random.Generator) -> Answers:
        size = len(monitors.labels_M)
        wrong_M = rng.random(size) < risk
        confidence_M = 1 / (1 + np.exp(rng.normal(np.where(wrong_M, skill, 0.0) - 2)))
        return Answers(
            loss_M=wrong_M.astype(float),
            confidence_M=confidence_M,
            share_M=np.full(size, share),
            audited_M=rng.random(size) < share,
            expired_M=wrong_M & (rng.random(size) < missing),
            risk_M=np.full(size, risk),
        )

    return world


def changing(at: int, before: World, after: World) -> World:
    """`before` for `at` answers, then `after`."""
    return lambda time, monitors, rng: (before if time < at else after)(time, monitors, rng)


def run(
    world: World, steps: int, *, alpha: float = 0.1, delta: float = 0.1, size: int, seed: int = 0
) -> tuple[RiskMonitors, Array]:
    """The monitors after `steps` answers, and at which answer each alarmed; infinity if never."""
    monitors, rng = RiskMonitors(alpha, delta, size), np.random.default_rng(seed)
    alarm_M = np.full(size, np.inf)
    for time in range(steps):
        a = world(time, monitors, rng)
        monitors.add(a.loss_M, a.confidence_M, a.share_M, a.audited_M, a.expired_M)
        alarm_M[monitors.alarmed_M & np.isinf(alarm_M)] = time + 1
    return monitors, alarm_M
