"""Simulated services for many monitors at once: what is asked, known, audited and labelled."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.monitoring.drift_test import DriftTest
from calibration.monitoring.grids import BINS
from calibration.monitoring.risk_monitor import RiskMonitors
from calibration.monitoring.starts import Array, Mask


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer of each service (M).

    `risk_M` is the mean of the loss, given everything before the answer.
    """

    loss_M: Array
    confidence_M: Array
    share_M: Array
    audited_M: Mask
    expired_M: Mask
    risk_M: Array


World = Callable[[int, RiskMonitors, np.random.Generator], Answers]
"""The answers at a time, from the time, the monitors so far, and randomness."""


def steady(risk: float, *, share: float = 1.0, missing: float = 0.0, skill: float = 0.0) -> World:
    """Independent answers of one risk.

    Args:
        risk: of every answer.
        share: drawn for audit.
        missing: of the wrong answers' labels; right ones all come.
        skill: how well the confidence ranks the answers: its logit is normal, and lower by so much
            on average if the answer is wrong. 0 knows nothing.
    """
    return varying(lambda time: risk, share=share, missing=missing, skill=lambda time: skill)


def varying(
    risk: Callable[[int], float],
    *,
    share: float = 1.0,
    missing: float = 0.0,
    skill: Callable[[int], float] = lambda time: 0.0,
) -> World:
    """Answers whose risk, and what the confidence knows, depend on the time."""

    def world(time: int, monitors: RiskMonitors, rng: np.random.Generator) -> Answers:
        size = len(monitors.labels_M)
        wrong_M = rng.random(size) < risk(time)
        logit_M = 2 - np.where(wrong_M, skill(time), 0.0) + rng.normal(size=size)
        return Answers(
            loss_M=wrong_M.astype(float),
            confidence_M=1 / (1 + np.exp(-logit_M)),
            share_M=np.full(size, share),
            audited_M=rng.random(size) < share,
            expired_M=wrong_M & (rng.random(size) < missing),
            risk_M=np.full(size, risk(time)),
        )

    return world


def changing(at: int, before: World, after: World) -> World:
    """`before` for `at` answers, then `after`."""
    return lambda time, monitors, rng: (before if time < at else after)(time, monitors, rng)


def two_kinds(alpha: float) -> World:
    """A fifth of the questions is of a worse kind, and audited four times as often; the mean risk
    is alpha. A test that counts all labels alike takes the risk for higher."""

    def world(_: int, monitors: RiskMonitors, rng: np.random.Generator) -> Answers:
        size = len(monitors.labels_M)
        worse_M = rng.random(size) < 0.2
        risk_M = np.where(worse_M, 2.5 * alpha, 0.625 * alpha)
        share_M = np.where(worse_M, 0.8, 0.2)
        return Answers(
            loss_M=(rng.random(size) < risk_M).astype(float),
            confidence_M=np.where(worse_M, 0.7, 0.95),
            share_M=share_M,
            audited_M=rng.random(size) < share_M,
            expired_M=np.zeros(size, bool),
            risk_M=np.full(size, alpha),
        )

    return world


def adversary(alpha: float, share: float) -> World:
    """Knows the wealth: risks alpha while the monitor bets much, and nothing while it bets little.

    After a loss the confidence of the next answer is low, whatever its risk. Losses are 0, 1/2
    or 1. So answers depend on everything before them, and no mean given the past is above alpha.
    """

    def world(_: int, monitors: RiskMonitors, rng: np.random.Generator) -> Answers:
        test = monitors.test.state
        size = len(monitors.labels_M)
        recent_M = test["losses"] / test["weight"]
        risk_M = np.where((recent_M > 0.7 * alpha) | (monitors.test.wealth_M > 1), alpha, 0.0)
        half_M = rng.random(size) < 0.5
        wrong_M = rng.random(size) < risk_M / 0.75
        loss_M = np.where(wrong_M, np.where(half_M, 0.5, 1.0), 0.0)
        return Answers(
            loss_M=loss_M,
            confidence_M=np.where(recent_M > alpha, 0.3, 0.95),
            share_M=np.full(size, share),
            audited_M=rng.random(size) < share,
            expired_M=np.zeros(size, bool),
            risk_M=risk_M,
        )

    return world


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


def misses(
    world: World, steps: int, *, alpha: float = 0.1, delta: float = 0.1, size: int, seed: int = 0
) -> tuple[float, float]:
    """The share of confidence sequences that ever miss, and the mean width of the last interval.

    They are looked at after 10 answers and then whenever there are a twentieth more.
    """
    monitors, rng = RiskMonitors(alpha, delta, size), np.random.default_rng(seed)
    total_M, missed_M, next_look = np.zeros(size), np.zeros(size, bool), 10
    for time in range(steps):
        a = world(time, monitors, rng)
        monitors.add(a.loss_M, a.confidence_M, a.share_M, a.audited_M, a.expired_M)
        total_M += a.risk_M
        if time + 1 in (next_look, steps):
            next_look += max(next_look // 20, 1)
            low_M, high_M = monitors.sequence.interval()
            mean_M = total_M / (time + 1)
            missed_M |= (mean_M < low_M - 1e-12) | (mean_M > high_M + 1e-12)
    return float(missed_M.mean()), float((high_M - low_M).mean())


Values = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.intp]]
"""Bins of readings, from randomness and a shape."""


def normal(shift: float = 0.0, scale: float = 1.0) -> Values:
    """Readings with a normal distribution, sixteen bins per standard deviation."""
    return lambda rng, shape: np.clip(
        np.floor(rng.normal(shift, scale, shape) * 16) + BINS // 2, 0, BINS - 1
    ).astype(np.intp)


def binary(share: float) -> Values:
    """Readings that are 1 with this probability, else 0."""
    return lambda rng, shape: (rng.random(shape) < share).astype(np.intp)


def drift_alarms(
    before: Values,
    after: Values,
    *,
    reference: int,
    at: int,
    steps: int,
    delta: float,
    size: int,
    kind: type[DriftTest] = DriftTest,
    seed: int = 0,
) -> Array:
    """At which live reading each test alarmed; infinity if never.

    Args:
        before: readings of the calibration, and of the service for `at` readings.
        after: readings from then on.
        reference: readings of the calibration.
        kind: the test, or a broken one.
    """
    rng = np.random.default_rng(seed)
    drawn_MN = before(rng, (size, reference))
    counts_MK = np.stack([np.bincount(row, minlength=BINS) for row in drawn_MN])
    tests, alarm_M = kind(counts_MK.astype(float)), np.full(size, np.inf)
    for time in range(steps):
        tests.add((before if time < at else after)(rng, (size,)), rng.random(size))
        alarm_M[(tests.wealth_M * delta >= 1) & np.isinf(alarm_M)] = time + 1
    return alarm_M


class FixedReference(DriftTest):
    """Broken: ranks among the calibration alone. Its p-values depend on each other."""

    def add(self, bin_M: NDArray[np.intp], tie_M: Array, known_M: Mask | None = None) -> Array:
        """As in `DriftTest.add`."""
        counts_MK = self.state["counts"].copy()
        p_M = super().add(bin_M, tie_M, known_M)
        self.state["counts"] = counts_MK
        return p_M
