"""The monitors of all levels in the database, and what they found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from rlcm_serve.monitoring.advance import Monitor, SeenAnswer
from rlcm_serve.monitoring.records import (
    Action,
    EventKind,
    Hook,
    MonitorEvent,
    MonitorKind,
)
from rlcm_serve.store.answers.table import (
    AnswerRow,
    EventRow,
    HistoryRow,
    LabelRow,
    MarkRow,
    MonitorRow,
)
from rlcm_serve.store.answers.withdrawals import withdraw
from rlcm_serve.store.database import Database

AT_ONCE = 500
"""Answers that a monitor sees in one transaction."""
_ORDER = AnswerRow.started, AnswerRow.sequence
_SEEN = [getattr(AnswerRow, name) for name in SeenAnswer.__slots__]


@dataclass(frozen=True, slots=True)
class Watched:
    """A monitor with what withdrawing its certificate takes; `slot` as in `StoredCertificate`."""

    monitor: Monitor
    slot: str
    whole_delta: float


class StoredMonitors:
    """The monitors of all processes that share a database. May be used from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect: Any = sqlite if database.is_sqlite else postgresql
        self._insert = dialect.insert(MonitorRow).on_conflict_do_nothing()

    def register(self, watched: Sequence[Watched]) -> None:
        """Adds monitors; those that are there stay as they are."""
        with self._database.session() as session:
            session.execute(self._insert, [_row(one) for one in watched])

    def all(self) -> list[Watched]:
        """Every monitor, in order of certificates and levels."""
        order = MonitorRow.certificate, MonitorRow.alpha, MonitorRow.what
        with self._database.reading() as session:
            return [_watched(row) for row in session.scalars(select(MonitorRow).order_by(*order))]

    def unseen(self, monitor: Monitor, mark: float, limit: int = AT_ONCE) -> list[SeenAnswer]:
        """The next answers that the monitor has not seen, to questions asked before `mark`.

        They are in the order in which the questions were asked.
        """
        rows = select(*_SEEN).where(*_after(monitor), AnswerRow.started < mark)
        with self._database.reading() as session:
            found = session.execute(rows.order_by(*_ORDER).limit(limit))
            return [SeenAnswer(*row) for row in found]

    def behind(self, monitor: Monitor) -> int:
        """How many answers the monitor has not seen."""
        rows = select(func.count()).select_from(AnswerRow)
        with self._database.reading() as session:
            return session.scalar(rows.where(*_after(monitor))) or 0

    def note_mark(self, process: str, mark: float, until: float) -> float:
        """Stores that all questions of a process asked before `mark` have ended.

        Returns:
            The smallest mark of the processes that run.
        """
        with self._database.session() as session:
            now = self._database.now(session)
            session.merge(MarkRow(process=process, mark=mark, until=until))
            session.execute(delete(MarkRow).where(MarkRow.until < now))
            return session.scalar(select(func.min(MarkRow.mark))) or mark

    def now(self) -> float:
        """The time of the database."""
        with self._database.reading() as session:
            return self._database.now(session)

    def commit(self, before: Watched, after: Monitor, event: MonitorEvent | None = None) -> bool:
        """Stores a monitor's next state, with what it found, as a whole or not at all.

        False, and nothing is stored, if another process was faster: no answer is seen twice.
        """
        known = before.monitor
        row = (
            MonitorRow.certificate == known.certificate,
            MonitorRow.alpha == known.alpha,
            MonitorRow.what == known.what.value,
            MonitorRow.sequence == known.sequence,
            MonitorRow.started == known.started,
        )
        values = {
            "started": after.started,
            "sequence": after.sequence,
            "state": json.dumps(after.state),
            "alarmed": after.alarmed,
        }
        with self._database.session() as session:
            stored = update(MonitorRow).where(*row).values(values).returning(MonitorRow.sequence)
            if session.scalar(stored) is None:
                return False
            if event is not None:
                self._act(session, before, event)
            return True

    def _act(self, session: Session, watched: Watched, event: MonitorEvent) -> None:
        add_event(session, event)
        if event.action is not Action.WITHDRAW:
            return
        is_new = withdraw(
            session,
            self._database,
            certificate=event.certificate,
            slot=watched.slot,
            delta=watched.whole_delta,
            time=event.time,
            why=event.text,
        )
        if is_new:
            said = f"the guarantee of certificate {event.certificate[:12]} was withdrawn"
            add_event(
                session,
                MonitorEvent(
                    event.time,
                    event.certificate,
                    None,
                    EventKind.WITHDRAWN,
                    said,
                    {},
                    Action.WITHDRAW,
                    event.hook,
                ),
            )

    def events(self, limit: int = 100, hook: Hook | None = None) -> list[MonitorEvent]:
        """The latest events, the newest first; only those with this state of the webhook."""
        rows = select(EventRow).order_by(EventRow.number.desc()).limit(limit)
        if hook is not None:
            rows = rows.where(EventRow.hook == hook.value)
        with self._database.reading() as session:
            return [_event(row) for row in session.scalars(rows)]

    def told(self, number: int, hook: Hook) -> None:
        """Notes whether the webhook was told of an event."""
        with self._database.session() as session:
            session.execute(
                update(EventRow).where(EventRow.number == number).values(hook=hook.value)
            )

    def add_history(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Stores how levels are now; each row has certificate, alpha, time and figures."""
        with self._database.session() as session:
            session.add_all(
                HistoryRow(
                    certificate=row["certificate"],
                    alpha=row["alpha"],
                    time=row["time"],
                    figures=json.dumps(row["figures"]),
                )
                for row in rows
            )

    def history(self, certificate: str, alpha: float, most: int) -> list[dict[str, Any]]:
        """How a level was, the oldest first: the latest `most` rows."""
        of_level = HistoryRow.certificate == certificate, HistoryRow.alpha == alpha
        rows = select(HistoryRow).where(*of_level).order_by(HistoryRow.time.desc()).limit(most)
        with self._database.reading() as session:
            found = [{"time": row.time} | json.loads(row.figures) for row in session.scalars(rows)]
        return found[::-1]

    def labels(self, monitor: Monitor) -> list[tuple[bool, bool, bool, int]]:
        """Numbers of labelled answers of a level, by (audited, right, whether in time)."""
        in_time = AnswerRow.labelled <= AnswerRow.due
        kinds = AnswerRow.audited, AnswerRow.right, in_time
        rows = select(*kinds, func.count()).group_by(*kinds)
        labelled = rows.where(*_of_level(monitor), AnswerRow.labelled.is_not(None))
        with self._database.reading() as session:
            return [(a, bool(r), bool(t), n) for a, r, t, n in session.execute(labelled)]

    def unlabelled(self, monitor: Monitor) -> tuple[int, int]:
        """Numbers of audited answers of a level without a label: that wait, and that expired."""
        with self._database.reading() as session:
            is_late = AnswerRow.due < self._database.now(session)
            rows = select(is_late, func.count()).group_by(is_late)
            found = {
                bool(late): count
                for late, count in session.execute(
                    rows.where(
                        *_of_level(monitor),
                        AnswerRow.audited,
                        AnswerRow.answered,
                        AnswerRow.labelled.is_(None),
                    )
                )
            }
        return found.get(False, 0), found.get(True, 0)

    def cut(self, before: float, limit: int = 1000) -> int:
        """Deletes the oldest answers given before a time, with their labels; returns how many."""
        oldest = select(AnswerRow.sequence).where(AnswerRow.time < before).limit(limit)
        with self._database.session() as session:
            found = list(session.scalars(oldest))
            session.execute(delete(LabelRow).where(LabelRow.sequence.in_(found)))
            session.execute(delete(AnswerRow).where(AnswerRow.sequence.in_(found)))
        return len(found)


def add_event(session: Session, event: MonitorEvent) -> None:
    """Stores an event."""
    session.add(
        EventRow(
            time=event.time,
            certificate=event.certificate,
            alpha=event.alpha,
            what=event.what.value,
            text=event.text,
            figures=json.dumps(dict(event.figures)),
            action=event.action.value,
            hook=event.hook.value,
        )
    )


def _of_level(monitor: Monitor) -> tuple[Any, ...]:
    return AnswerRow.certificate == monitor.certificate, AnswerRow.alpha == monitor.alpha


def _after(monitor: Monitor) -> tuple[Any, ...]:
    """The condition on answers that come after the last one seen."""
    seen = tuple_(monitor.started, monitor.sequence)
    return *_of_level(monitor), tuple_(*_ORDER) > seen


def _row(one: Watched) -> dict[str, Any]:
    monitor = one.monitor
    return {
        "certificate": monitor.certificate,
        "alpha": monitor.alpha,
        "what": monitor.what.value,
        "risk": monitor.risk,
        "delta": monitor.delta,
        "reference": json.dumps(dict(monitor.reference)),
        "started": monitor.started,
        "sequence": monitor.sequence,
        "state": json.dumps(dict(monitor.state)),
        "alarmed": monitor.alarmed,
        "slot": one.slot,
        "whole_delta": one.whole_delta,
    }


def _watched(row: MonitorRow) -> Watched:
    monitor = Monitor(
        certificate=row.certificate,
        alpha=row.alpha,
        what=MonitorKind(row.what),
        risk=row.risk,
        delta=row.delta,
        reference=json.loads(row.reference),
        started=row.started,
        sequence=row.sequence,
        state=json.loads(row.state),
        alarmed=row.alarmed,
    )
    return Watched(monitor, row.slot, row.whole_delta)


def _event(row: EventRow) -> MonitorEvent:
    return MonitorEvent(
        time=row.time,
        certificate=row.certificate,
        alpha=row.alpha,
        what=EventKind(row.what),
        text=row.text,
        figures=json.loads(row.figures),
        action=Action(row.action),
        hook=Hook(row.hook),
        number=row.number,
    )
