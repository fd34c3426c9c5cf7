"""The figures of live monitoring, for the route, the page and the metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from calibration.monitoring.drift_monitor import AVERAGE_RUN_LENGTH
from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import MonitorEvent, MonitorKind
from rlcm_serve.solving.guarantees import Withdrawn
from rlcm_serve.store.answers.monitors import StoredMonitors
from rlcm_serve.store.answers.table import AnswerRow, BettingRow
from rlcm_serve.store.answers.withdrawals import withdrawn
from rlcm_serve.store.database import Database

HISTORY = 1000
"""Rows of a level's history that are shown."""


@dataclass(frozen=True, slots=True)
class TestFigures:
    """The test of a level's promise; fields as in the wire type `LabelTest`."""

    labels: int
    answers: int
    behind: int
    risk: float | None
    low: float
    high: float
    log_wealth: float
    threshold: float
    alarmed_at: float | None


@dataclass(frozen=True, slots=True)
class DriftFigures:
    """One statistic; fields as in the wire type `DriftNow`."""

    statistic: str
    calibration: float | None
    now: float | None
    rank: float
    low: float
    high: float
    window: int
    average_run_length: float
    log_wealth: float
    alarmed: bool


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """A level, live; times are Unix times in seconds.

    `labels` are numbers of answers by audited, waiting, expired, right, wrong, others_right and
    others_wrong, as in the wire type `LabelCounts`.
    """

    certificate: str
    risk: str
    alpha: float
    delta: float
    questions: int
    answered: int
    labels: dict[str, int]
    test: TestFigures | None
    drift: tuple[DriftFigures, ...]
    drift_alarmed_at: float | None
    history: tuple[dict[str, Any], ...]

    @property
    def share_declined(self) -> float | None:
        """Share of the questions that was declined."""
        return 1 - self.answered / self.questions if self.questions else None


@dataclass(frozen=True, slots=True)
class MonitoringFigures:
    """Everything that monitoring knows; `levels` in order of certificate and alpha."""

    time: float
    looked: float | None
    waiting: int
    oldest: float | None
    levels: tuple[LevelFigures, ...]
    withdrawn: dict[str, Withdrawn]
    events: tuple[MonitorEvent, ...]


class FigureStore:
    """Reads the figures. May be used from any thread.

    Args:
        database: holds the tables.
        monitors: of all levels.
        draw: has the secret for ties.
    """

    def __init__(self, database: Database, monitors: StoredMonitors, draw: AuditDraw) -> None:
        self._database = database
        self._monitors = monitors
        self._draw = draw

    def read(self) -> MonitoringFigures:
        """The figures now."""
        waits = (AnswerRow.audited, AnswerRow.answered, AnswerRow.labelled.is_(None))
        with self._database.reading() as session:
            now = self._database.now(session)
            open_ = select(func.count(), func.min(AnswerRow.time)).where(
                *waits, AnswerRow.due >= now
            )
            waiting, oldest = session.execute(open_).one()
            looked = session.scalar(select(func.max(BettingRow.looked)))
            lost = withdrawn(session)
        return MonitoringFigures(
            time=now,
            looked=looked,
            waiting=waiting,
            oldest=oldest,
            levels=tuple(self._level(*pair) for pair in self._pairs()),
            withdrawn=lost,
            events=tuple(self._monitors.events()),
        )

    def history_rows(self, now: float) -> list[dict[str, Any]]:
        """How the levels are now, as rows of their history; only those with questions."""
        rows = []
        for pair in self._pairs():
            level = self._level(*pair)
            if level.questions:
                figures = {
                    "answers": level.questions,
                    "labels": 0 if level.test is None else level.test.labels,
                    "risk": None if level.test is None else level.test.risk,
                    "low": None if level.test is None else level.test.low,
                    "high": None if level.test is None else level.test.high,
                    "log_wealth": None if level.test is None else level.test.log_wealth,
                    "share_declined": level.share_declined,
                }
                key = {"certificate": level.certificate, "alpha": level.alpha, "time": now}
                rows.append(key | {"figures": figures})
        return rows

    def _pairs(self) -> Sequence[tuple[Monitor, Monitor | None]]:
        """The drift monitor of each level, and its test, if it has one."""
        monitors = [watched.monitor for watched in self._monitors.all()]
        tests = {(m.certificate, m.alpha): m for m in monitors if m.what is MonitorKind.RISK}
        drift = [m for m in monitors if m.what is MonitorKind.DRIFT]
        return [(m, tests.get((m.certificate, m.alpha))) for m in drift]

    def _level(self, drift: Monitor, test: Monitor | None) -> LevelFigures:
        return LevelFigures(
            certificate=drift.certificate,
            risk=drift.risk,
            alpha=drift.alpha,
            delta=drift.delta,
            questions=drift.state.get("questions", 0),
            answered=drift.state.get("answered", 0),
            labels=self._labels(drift),
            test=None if test is None else self._test(test),
            drift=self._drift(drift),
            drift_alarmed_at=drift.alarmed,
            history=tuple(self._monitors.history(drift.certificate, drift.alpha, HISTORY)),
        )

    def _labels(self, monitor: Monitor) -> dict[str, int]:
        waiting, expired = self._monitors.unlabelled(monitor)
        found = dict.fromkeys(("right", "wrong", "others_right", "others_wrong"), 0)
        late = 0
        for is_audited, right, in_time, count in self._monitors.labels(monitor):
            found[("" if is_audited else "others_") + ("right" if right else "wrong")] += count
            late += count if is_audited and not in_time else 0
        drawn = waiting + expired + found["right"] + found["wrong"]
        return found | {"audited": drawn, "waiting": waiting, "expired": expired + late}

    def _test(self, stored: Monitor) -> TestFigures:
        monitor = stored.risk_monitor()
        low, high = monitor.interval()
        return TestFigures(
            labels=monitor.labels,
            answers=monitor.answers,
            behind=self._monitors.behind(stored),
            risk=monitor.risk(),
            low=low,
            high=high,
            log_wealth=monitor.log_wealth,
            threshold=-math.log(stored.delta),
            alarmed_at=stored.alarmed,
        )

    def _drift(self, stored: Monitor) -> tuple[DriftFigures, ...]:
        monitor = stored.drift_monitor(self._draw.digest("display"))
        wealth, alarmed = monitor.log_wealth, monitor.alarmed
        return tuple(
            DriftFigures(
                statistic=band.name,
                calibration=band.reference_mean,
                now=band.mean,
                rank=band.rank,
                low=band.low,
                high=band.high,
                window=band.readings,
                average_run_length=float(AVERAGE_RUN_LENGTH),
                log_wealth=wealth[band.name],
                alarmed=band.name in alarmed,
            )
            for band in monitor.bands()
        )
