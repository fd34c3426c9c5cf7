"""The figures of live monitoring, for the route, the page and the metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import func, select

from calibration.monitoring.drift_monitor import AVERAGE_RUN_LENGTH
from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import MonitorEvent, MonitorKind
from rlcm_serve.solving.guarantees import Withdrawn
from rlcm_serve.store.answers.counts import SHOWN, Level, unread_waiting
from rlcm_serve.store.answers.monitors import StoredMonitors
from rlcm_serve.store.answers.table import UNLABELLED, AnswerRow, BettingRow
from rlcm_serve.store.answers.withdrawals import withdrawn
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.figures import ShadowFigures, shadow_figures
from rlcm_serve.store.shadows.table import ShadowRow

_Figures = TypeVar("_Figures")
HISTORY = 300
"""Points of a level's history that are shown, from its first row to its last."""


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
    shadow: ShadowFigures | None
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
    unusable: int
    """Monitors that this process cannot read. They stand still, and their figures are missing."""


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

    def read(self, *, history: bool = True) -> MonitoringFigures:
        """The figures now, with or without the levels' history."""
        with self._database.reading() as session:
            now = self._database.now(session)
            counts = self._monitors.counts.read(session, now)
            runs = self._monitors.shadow_counts.read(session)
            waits = select(AnswerRow.time).where(*UNLABELLED, AnswerRow.due >= now)
            unread = select(AnswerRow.time).join(ShadowRow, ShadowRow.id == AnswerRow.id)
            unread = unread.where(*unread_waiting(now))
            firsts = [session.scalar(of.order_by(AnswerRow.due).limit(1)) for of in (waits, unread)]
            oldest = min((first for first in firsts if first is not None), default=None)
            looked = session.scalar(select(func.max(BettingRow.looked)))
            lost = withdrawn(session)
        levels = tuple(
            self._level(*of_level, counts, runs, history=history) for of_level in self._levels()
        )
        return MonitoringFigures(
            time=now,
            looked=looked,
            waiting=sum(level["waiting"] for level in counts.values()),
            oldest=oldest,
            levels=levels,
            withdrawn=lost,
            events=tuple(self._monitors.events()),
            unusable=self._monitors.unusable,
        )

    def history_rows(self, now: float) -> list[dict[str, Any]]:
        """How the levels are now, as rows of their history; only those with questions."""
        rows = []
        for drift, test, _ in self._levels():
            level = self._level(drift, test, None, {}, {}, history=False)
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

    def _levels(self) -> Sequence[tuple[Monitor, Monitor | None, Monitor | None]]:
        """Of each level the monitors of drift, of labels and of shadow runs, if it has them."""
        found = {(m.certificate, m.alpha, m.what): m for m in self._all()}
        return [
            (
                drift,
                found.get((digest, alpha, MonitorKind.RISK)),
                found.get((digest, alpha, MonitorKind.SHADOW)),
            )
            for (digest, alpha, what), drift in found.items()
            if what is MonitorKind.DRIFT
        ]

    def _all(self) -> Iterator[Monitor]:
        return (watched.monitor for watched in self._monitors.all())

    def _level(
        self,
        drift: Monitor,
        test: Monitor | None,
        shadow: Monitor | None,
        counts: Mapping[Level, dict[str, int]],
        runs: Mapping[Level, dict[str, int]],
        *,
        history: bool,
    ) -> LevelFigures:
        of_level = drift.certificate, drift.alpha
        return LevelFigures(
            certificate=drift.certificate,
            risk=drift.risk,
            alpha=drift.alpha,
            delta=drift.delta,
            questions=drift.state.get("questions", 0),
            answered=drift.state.get("answered", 0),
            labels=counts.get(of_level) or dict.fromkeys(SHOWN, 0),
            test=None if test is None else self._usable(lambda: self._test(drift, test), test),
            drift=self._usable(lambda: self._drift(drift), drift) or (),
            drift_alarmed_at=drift.alarmed,
            shadow=None
            if shadow is None
            else self._usable(lambda: shadow_figures(shadow, runs), shadow),
            history=tuple(self._monitors.history(*of_level, HISTORY)) if history else (),
        )

    def _usable(self, figures: Callable[[], _Figures], monitor: Monitor) -> _Figures | None:
        """The figures of a monitor; None if its state cannot be used."""
        try:
            return figures()
        except DatabaseRefused:
            raise
        except Exception as error:  # the others are shown  # noqa: BLE001
            self._monitors.note_unusable(monitor, error)
            return None

    def _behind(self, drift: Monitor, test: Monitor) -> int:
        """How many answers a test has not seen.

        Those which the drift monitor of the level has seen are counted by it already. One that
        came too late for it, but not for the test, makes the number one too small.
        """
        if "seen" not in test.state:
            return self._monitors.behind(test)
        by_drift: int = drift.state.get("questions", 0)
        return self._monitors.behind(drift) + max(0, by_drift - int(test.state["seen"]))

    def _test(self, drift: Monitor, stored: Monitor) -> TestFigures:
        monitor = stored.risk_monitor()
        low, high = monitor.interval()
        return TestFigures(
            labels=monitor.labels,
            answers=monitor.answers,
            behind=self._behind(drift, stored),
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
