"""Running counts of labels, level by level: a figure costs no more with many answers than with few.

Each count changes in the transaction that changes what is counted, so the counts are exact in all
processes and after a kill. Answers that are deleted because of their age stay counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import bindparam, func, select, tuple_
from sqlalchemy.orm import Session

from rlcm_serve.store.answers.table import UNLABELLED, UNREAD, AnswerRow, LabelCountsRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.table import ShadowRow

Level = tuple[str, float]
NO_LEVEL: Level = ("", 0.0)
"""Answers without a guarantee."""
_KEY = LabelCountsRow.certificate, LabelCountsRow.alpha
SHOWN = "audited", "waiting", "expired", "right", "wrong", "others_right", "others_wrong"
_NUMBERS = "audited", "right", "wrong", "late", "others_right", "others_wrong", "overdue"


def level_of(certificate: str | None, alpha: float | None) -> Level:
    """The level at which an answer is counted."""
    return NO_LEVEL if certificate is None or alpha is None else (certificate, alpha)


class LabelCounts:
    """The counts of all processes that share a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert(LabelCountsRow).on_conflict_do_nothing()

    def locked(self, session: Session, levels: Iterable[Level]) -> dict[Level, LabelCountsRow]:
        """The counts of these levels, to be changed in this transaction.

        No other transaction changes them until it ends. What it reads of answers afterwards is no
        older than what they count.
        """
        wanted = sorted(set(levels))
        if not wanted:
            return {}
        # In one order, so that no two transactions wait for each other.
        rows = select(LabelCountsRow).where(tuple_(*_KEY).in_(wanted)).order_by(*_KEY)
        rows = rows.with_for_update().execution_options(populate_existing=True)
        found = session.scalars(rows).all()
        if len(found) < len(wanted):
            now = self._database.now(session)
            session.execute(self._insert, [_new(*level, now) for level in wanted])
            found = session.scalars(rows).all()
        return {(row.certificate, row.alpha): row for row in found}

    def add(self, session: Session, drawn: Iterable[tuple[Level, float]]) -> None:
        """Counts answers that were drawn for audit: the level and deadline of each."""
        new = list(drawn)
        rows = self.locked(session, (level for level, _ in new))
        for level, due in new:
            rows[level].audited += 1
            rows[level].overdue += due < rows[level].overdue_at

    def expire(self) -> None:
        """Counts the deadlines that have passed, so that no reader counts them again."""
        with self._database.reading() as session:
            now = self._database.now(session)
            counted = session.execute(select(*_KEY, _passed(now))).all()
        if not any(passed for _, _, passed in counted):
            return
        with self._database.session() as session:
            for row in self.locked(session, [(name, alpha) for name, alpha, _ in counted]).values():
                of_level = _KEY[0] == row.certificate, _KEY[1] == row.alpha
                row.overdue += session.scalar(select(_passed(now)).where(*of_level)) or 0
                row.overdue_at = max(row.overdue_at, now)

    def delete(self, session: Session, answers: Iterable[AnswerRow]) -> None:
        """Counts answers that are about to be deleted as overdue if they wait for a label."""
        waiting = [one for one in answers if one.audited and one.answered and one.labelled is None]
        rows = self.locked(session, (level_of(one.certificate, one.alpha) for one in waiting))
        for one in waiting:
            row = rows[level_of(one.certificate, one.alpha)]
            row.overdue += one.due >= row.overdue_at

    def read(self, session: Session, now: float) -> dict[Level, dict[str, int]]:
        """The counts of every level, by the names of the wire type `LabelCounts`.

        It is one statement, so that they belong together. A second one adds the answers that could
        not be read and wait, which no other count has.
        """
        found = {}
        for row, passed in session.execute(select(LabelCountsRow, _passed(now))):
            overdue = row.overdue + passed
            found[row.certificate, row.alpha] = {
                "audited": row.audited,
                "waiting": row.audited - row.right - row.wrong - overdue,
                "expired": overdue + row.late,
                "right": row.right,
                "wrong": row.wrong,
                "others_right": row.others_right,
                "others_wrong": row.others_wrong,
            }
        for certificate, alpha, number in session.execute(_UNREAD_WAITING, {"now": now}):
            of_level = found.setdefault((certificate, alpha), dict.fromkeys(SHOWN, 0))
            of_level["waiting"] += number
        return found


def _new(certificate: str, alpha: float, now: float) -> dict[str, Any]:
    """The counts of a level without answers."""
    return {"certificate": certificate, "alpha": alpha, "overdue_at": now} | dict.fromkeys(
        _NUMBERS, 0
    )


def unread_waiting(now: Any) -> list[Any]:
    """The condition on answers, joined to their shadow runs, that could not be read and wait.

    The full budget gave an answer, and a label tells whether it is right.
    """
    return [*UNREAD, AnswerRow.due > now, ShadowRow.disagrees]


def _passed(now: float) -> Any:
    """Unlabelled answers of a level whose deadline has passed since it was last looked at."""
    of_level = (
        func.coalesce(AnswerRow.certificate, NO_LEVEL[0]) == _KEY[0],
        func.coalesce(AnswerRow.alpha, NO_LEVEL[1]) == _KEY[1],
    )
    since = AnswerRow.due >= LabelCountsRow.overdue_at
    count = select(func.count()).select_from(AnswerRow)
    passed = count.where(*UNLABELLED, since, AnswerRow.due < now, *of_level)
    return passed.correlate(LabelCountsRow).scalar_subquery()


_UNREAD_WAITING = (
    select(AnswerRow.certificate, AnswerRow.alpha, func.count())
    .join(ShadowRow, ShadowRow.id == AnswerRow.id)
    .where(*unread_waiting(bindparam("now")))
    .group_by(AnswerRow.certificate, AnswerRow.alpha)
)
