"""The monitors of all levels in the database, and what they found."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Select, bindparam, cast, delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.monitoring.losses import SeenAnswer
from rlcm_serve.monitoring.records import (
    WITHDRAWING,
    Action,
    EventKind,
    Hook,
    MonitorEvent,
    MonitorKind,
)
from rlcm_serve.store.answers.counts import LabelCounts
from rlcm_serve.store.answers.table import (
    AnswerRow,
    EventRow,
    HistoryRow,
    LabelRow,
    MarkRow,
    MonitorRow,
)
from rlcm_serve.store.answers.turn import LEASE
from rlcm_serve.store.answers.withdrawals import withdraw
from rlcm_serve.store.database import Database
from rlcm_serve.store.rehearsals.table import RehearsedRow
from rlcm_serve.store.shadows.counts import ShadowCounts
from rlcm_serve.store.shadows.seen import answers_for, reads_shadows, seen_answer
from rlcm_serve.store.shadows.table import ShadowRow

AT_ONCE = 500
"""Answers that a monitor sees in one transaction."""
_ORDER = AnswerRow.started, AnswerRow.sequence
_PLACE = MonitorRow.started, MonitorRow.sequence
_KEY = MonitorRow.certificate, MonitorRow.alpha, MonitorRow.what
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """A monitor with what withdrawing its certificate takes; `slot` as in `StoredCertificate`."""

    monitor: Monitor
    slot: str
    whole_delta: float


@dataclass(frozen=True, slots=True)
class Step:
    """A monitor before and after the answers that it was shown, and its first alarm."""

    before: Watched
    after: Monitor
    event: MonitorEvent | None = None


class StoredMonitors:
    """The monitors of all processes that share a database. May be used from any thread."""

    def __init__(self, database: Database) -> None:
        self.counts = LabelCounts(database)
        self.shadow_counts = ShadowCounts(database)
        self._database = database
        self._unusable: set[tuple[str, float, MonitorKind]] = set()
        self._insert = database.insert(MonitorRow).on_conflict_do_nothing()
        renewed = database.insert(MarkRow)
        self._mark = renewed.on_conflict_do_update(
            index_elements=["process"],
            set_={"mark": renewed.excluded.mark, "until": renewed.excluded.until},
        )

    def register(self, watched: Sequence[Watched]) -> None:
        """Adds monitors; those that are there stay as they are."""
        with self._database.session() as session:
            session.execute(self._insert, [_row(one) for one in watched])

    def all(self) -> list[Watched]:
        """Every monitor, in order of certificates and levels."""
        with self._database.reading() as session:
            return [_watched(row) for row in session.scalars(select(MonitorRow).order_by(*_KEY))]

    def with_news(self, mark: float) -> list[Watched]:
        """Those of `all` that have not seen every answer to a question asked before `mark`."""
        of_level = (
            AnswerRow.certificate == MonitorRow.certificate,
            AnswerRow.alpha == MonitorRow.alpha,
        )
        is_new = tuple_(*_ORDER) > tuple_(*_PLACE), AnswerRow.started < mark
        news = select(AnswerRow.sequence).where(*of_level, *is_new).exists()
        rows = select(MonitorRow).where(news).order_by(*_KEY)
        with self._database.reading() as session:
            return [_watched(row) for row in session.scalars(rows)]

    def unseen(
        self, monitors: Sequence[Monitor], mark: float, limit: int = AT_ONCE
    ) -> list[list[SeenAnswer]]:
        """Of each monitor, the next answers that it has not seen, to questions asked before `mark`.

        They are in the order in which the questions were asked.
        """
        with self._database.reading() as session:
            found = []
            for monitor in monitors:
                values = {
                    "certificate": monitor.certificate,
                    "alpha": monitor.alpha,
                    "after_started": monitor.started,
                    "after_sequence": monitor.sequence,
                    "mark": mark,
                    "most": limit,
                }
                rows = session.execute(_UNSEEN[reads_shadows(monitor)], values)
                found.append([seen_answer(row) for row in rows])
            return found

    def last_seen(self) -> float:
        """When the latest question was asked whose answer a monitor has seen, Unix time."""
        with self._database.reading() as session:
            return session.scalar(select(func.max(MonitorRow.started))) or 0.0

    def behind(self, monitor: Monitor) -> int:
        """How many answers the monitor has not seen. It counts them, one by one."""
        rows = select(func.count()).select_from(AnswerRow)
        with self._database.reading() as session:
            return session.scalar(rows.where(*_after(monitor))) or 0

    def passed(self, monitor: Monitor) -> int:
        """How many answers come before those that the monitor has not seen, as drift counts them.

        The drift monitor of its level counts all answers, also those that are deleted by now.
        """
        drift_key = monitor.certificate, monitor.alpha, MonitorKind.DRIFT.value
        with self._database.reading() as session:
            row = session.get(MonitorRow, drift_key)
            if row is None:
                return 0
            drift, count = _watched(row).monitor, select(func.count()).select_from(AnswerRow)
            # In one statement, so that both count the same answers.
            behind = [count.where(*_after(one)).scalar_subquery() for one in (drift, monitor)]
            by_drift, by_monitor = session.execute(select(*behind)).one()
        seen_by_drift: int = drift.state.get("questions", 0)
        return seen_by_drift + int(by_drift) - int(by_monitor)

    def note_mark(self, process: str, mark: float, until: float) -> float:
        """Stores that all questions of a process asked before `mark` have ended.

        Returns:
            The smallest mark of the processes that run.
        """
        with self._database.session() as session:
            now = self._database.now(session)
            session.execute(self._mark, {"process": process, "mark": mark, "until": until})
            session.execute(delete(MarkRow).where(MarkRow.until < now))
            # Since these were renewed, the clock was set back.
            ahead = update(MarkRow).where(MarkRow.until > now + 2 * LEASE)
            session.execute(ahead.values(until=now + LEASE))
            return session.scalar(select(func.min(MarkRow.mark))) or mark

    def now(self) -> float:
        """The time of the database."""
        with self._database.reading() as session:
            return self._database.now(session)

    def commit(self, steps: Sequence[Step]) -> list[bool]:
        """Stores the next states of monitors, with what they found, in one transaction.

        Returns:
            Of each, whether it was stored. It is not if another process was faster: no answer is
            seen twice.
        """
        with self._database.session() as session:
            stored = [session.scalar(_ADVANCE, _next(step)) is not None for step in steps]
            # After all states: so no two processes wait for each other's rows.
            for step, is_stored in zip(steps, stored, strict=True):
                if is_stored and step.event is not None:
                    self._act(session, step.before, step.event)
            return stored

    def _act(self, session: Session, watched: Watched, event: MonitorEvent) -> None:
        add_event(session, event)
        if event.action not in WITHDRAWING:
            return
        below = event.alpha if event.action is Action.SMALLER_LEVEL else None
        is_new = withdraw(
            session,
            self._database,
            certificate=event.certificate,
            slot=watched.slot,
            delta=watched.whole_delta,
            time=event.time,
            why=event.text,
            below=below,
        )
        if is_new:
            said = f"the guarantee of certificate {event.certificate[:12]} was withdrawn"
            said += "" if below is None else f"; levels below alpha {below:g} serve on without it"
            add_event(
                session,
                MonitorEvent(
                    event.time,
                    event.certificate,
                    None,
                    EventKind.WITHDRAWN,
                    said,
                    {},
                    event.action,
                    event.hook,
                ),
            )

    @property
    def unusable(self) -> int:
        """How many monitors this process has found unusable since its start."""
        return len(self._unusable)

    def note_unusable(self, monitor: Monitor, error: Exception) -> None:
        """Logs once that a monitor stands, because its state cannot be used."""
        name = monitor.certificate, monitor.alpha, monitor.what
        if name not in self._unusable:
            self._unusable.add(name)
            _log.error(
                "the %s monitor of certificate %s at alpha %g stands; to start it anew, delete its "
                "row in the table rlcm_monitors and restart the service: %s: %s",
                monitor.what.value,
                monitor.certificate[:12],
                monitor.alpha,
                type(error).__name__,
                error,
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
        """Stores how levels are now; each row has certificate, alpha, time and figures.

        A row that says nothing new is left out.
        """
        with self._database.session() as session:
            for row in rows:
                figures = json.dumps(row["figures"])
                of_level = _history_of(row["certificate"], row["alpha"])
                last = select(HistoryRow.figures).where(*of_level).order_by(HistoryRow.time.desc())
                if session.scalar(last.limit(1)) != figures:
                    session.add(HistoryRow(**{**row, "figures": figures}))

    def history(self, certificate: str, alpha: float, most: int) -> list[dict[str, Any]]:
        """How a level was, the oldest first: about `most` rows, evenly spaced over all times."""
        of_level, time = _history_of(certificate, alpha), HistoryRow.time
        with self._database.reading() as session:
            ends = select(func.min(time), func.max(time)).where(*of_level)
            first, last = session.execute(ends).one()
            if first is None:
                return []
            step = (last - first) / most or 1.0
            latest = select(func.max(time)).where(*of_level)
            latest = latest.group_by(cast((time - first) / step, BigInteger))
            rows = select(HistoryRow).where(*of_level, time.in_(latest)).order_by(time)
            return [{"time": row.time} | json.loads(row.figures) for row in session.scalars(rows)]

    def cut_history(self, before: float) -> None:
        """Deletes how levels were before a time."""
        with self._database.session() as session:
            session.execute(delete(HistoryRow).where(HistoryRow.time < before))

    def cut(self, before: float, limit: int = 1000) -> int:
        """Deletes the oldest answers given before a time, with their labels; returns how many.

        Their labels and shadow runs stay counted.
        """
        oldest = select(AnswerRow).where(AnswerRow.time < before)
        with self._database.session() as session:
            oldest = oldest.order_by(AnswerRow.time, AnswerRow.sequence).limit(limit)
            found = list(session.scalars(oldest.with_for_update()))
            self.counts.delete(session, found)
            numbers, ids = [row.sequence for row in found], [row.id for row in found]
            session.execute(delete(RehearsedRow).where(RehearsedRow.id.in_(ids)))
            self.shadow_counts.close(session, ShadowRow.id.in_(ids))
            session.execute(delete(ShadowRow).where(ShadowRow.id.in_(ids)))
            session.execute(delete(LabelRow).where(LabelRow.sequence.in_(numbers)))
            session.execute(delete(AnswerRow).where(AnswerRow.sequence.in_(numbers)))
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


def _unseen(*, with_shadows: bool) -> Select[Any]:
    """The query of `StoredMonitors.unseen`; built once, which takes longer than to run it."""
    place = (
        bindparam("after_started", type_=AnswerRow.started.type),
        bindparam("after_sequence", type_=AnswerRow.sequence.type),
    )
    rows = answers_for(with_shadows=with_shadows).where(
        AnswerRow.certificate == bindparam("certificate"),
        AnswerRow.alpha == bindparam("alpha"),
        tuple_(*_ORDER) > tuple_(*place),
        AnswerRow.started < bindparam("mark"),
    )
    return rows.order_by(*_ORDER).limit(bindparam("most"))


_UNSEEN = {shadows: _unseen(with_shadows=shadows) for shadows in (False, True)}
_ADVANCE = (
    update(MonitorRow)
    .where(*(column == bindparam(f"known_{column.key}") for column in (*_KEY, *_PLACE)))
    .values(
        {name: bindparam(f"new_{name}") for name in ("started", "sequence", "state", "alarmed")}
    )
    .returning(MonitorRow.sequence)
)


def _next(step: Step) -> dict[str, Any]:
    """The values of `_ADVANCE`."""
    known, after = step.before.monitor, step.after
    return {
        "known_certificate": known.certificate,
        "known_alpha": known.alpha,
        "known_what": known.what.value,
        "known_started": known.started,
        "known_sequence": known.sequence,
        "new_started": after.started,
        "new_sequence": after.sequence,
        "new_state": json.dumps(after.state),
        "new_alarmed": after.alarmed,
    }


def _of_level(monitor: Monitor) -> tuple[Any, ...]:
    return AnswerRow.certificate == monitor.certificate, AnswerRow.alpha == monitor.alpha


def _after(monitor: Monitor) -> tuple[Any, ...]:
    """The condition on answers that come after the last one seen."""
    seen = tuple_(monitor.started, monitor.sequence)
    return *_of_level(monitor), tuple_(*_ORDER) > seen


def _history_of(certificate: str, alpha: float) -> tuple[Any, ...]:
    return HistoryRow.certificate == certificate, HistoryRow.alpha == alpha


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
        state=_state(row.state),
        alarmed=row.alarmed,
    )
    return Watched(monitor, row.slot, row.whole_delta)


def _state(stored: str) -> dict[str, Any]:
    """The state of a monitor; if it is no JSON, one that the monitor refuses."""
    with suppress(ValueError):
        found = json.loads(stored)
        if isinstance(found, dict):
            return found
    return {"monitor": {}}


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
