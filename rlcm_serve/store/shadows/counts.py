"""Running counts of shadow runs, level by level: many runs cost a figure no more than few.

Each count changes in the transaction that changes what is counted. Runs that are deleted because
of their age stay counted, as they stay in the state of their monitor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from rlcm_serve.monitoring.losses import GRACE
from rlcm_serve.store.answers.counts import Level
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.table import OPEN, ShadowCountsRow, ShadowRow

SHOWN = "drawn", "dropped", "waiting", "missing", "agree", "disagree"
_COUNTED = "drawn", "dropped", "missing", "agree", "disagree"
_OUTCOMES = {None: "missing", True: "disagree", False: "agree"}


class ShadowCounts:
    """The counts of all processes that share a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        new = database.insert(ShadowCountsRow)
        self._add = new.on_conflict_do_update(
            index_elements=["certificate", "alpha"],
            set_={name: getattr(ShadowCountsRow, name) + new.excluded[name] for name in _COUNTED},
        )

    def draw(self, session: Session, stored: Iterable[tuple[Level, float, bool]]) -> None:
        """Counts draws that were stored: level, share and whether it was drawn."""
        drawn = [(level, share) for level, share, is_drawn in stored if is_drawn]
        dropped = [(level, "dropped") for level, share in drawn if share <= 0]
        self._count(session, [*((level, "drawn") for level, _ in drawn), *dropped])

    def end(self, session: Session, level: Level, *, disagrees: bool | None) -> None:
        """Counts a run that has ended; `disagrees` is None if it gave no result."""
        self._count(session, [(level, _OUTCOMES[disagrees])])

    def close(self, session: Session, *which: Any) -> None:
        """Ends the open runs that meet these conditions, without a result."""
        closed = update(ShadowRow).where(text(OPEN), *which)
        closed = closed.values(ended=self._database.now(session))
        rows = session.execute(closed.returning(ShadowRow.certificate, ShadowRow.alpha))
        self._count(session, [((name, alpha), "missing") for name, alpha in rows])

    def expire(self) -> None:
        """Ends the runs whose deadline has passed: no monitor waits for them any more."""
        with self._database.reading() as session:
            is_late = ShadowRow.due < self._database.now(session) - GRACE
            if session.scalar(select(ShadowRow.id).where(text(OPEN), is_late).limit(1)) is None:
                return
        with self._database.session() as session:
            self.close(session, is_late)

    def read(self, session: Session) -> dict[Level, dict[str, int]]:
        """The counts of every level, by the names of the wire type `ShadowNow`."""
        found = {}
        for row in session.scalars(select(ShadowCountsRow)):
            counts = {name: getattr(row, name) for name in _COUNTED}
            ended = sum(counts.values()) - row.drawn
            found[row.certificate, row.alpha] = counts | {"waiting": row.drawn - ended}
        return found

    def _count(self, session: Session, found: Iterable[tuple[Level, str]]) -> None:
        levels: dict[Level, Counter[str]] = {}
        for level, name in found:
            levels.setdefault(level, Counter())[name] += 1
        rows = [
            {"certificate": certificate, "alpha": alpha} | {name: new[name] for name in _COUNTED}
            # In one order, so that no two transactions wait for each other.
            for (certificate, alpha), new in sorted(levels.items())
        ]
        if rows:
            session.execute(self._add, rows)
