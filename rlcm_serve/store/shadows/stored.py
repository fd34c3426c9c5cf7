"""What came of shadow runs, in the database, and the labels of their answers."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select, update

from rlcm_serve.solving.shadow.runs import ShadowOutcome
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.table import ShadowRow, note_full_right


class Ungraded(NamedTuple):
    """A full-budget answer that a stored reference can grade."""

    id: str
    profile: str
    answer: str
    reference: str


class StoredShadows:
    """The shadow runs of all processes that share a database. May be used from any thread.

    Args:
        database: holds the tables.
        texts: whether the texts of answers are kept.
    """

    def __init__(self, database: Database, *, texts: bool) -> None:
        self._database = database
        self._texts = texts

    def end(self, outcome: ShadowOutcome) -> bool:
        """Stores what came of a run; False if its answer is not stored (yet)."""
        text = outcome.answer if self._texts else None
        ended = update(ShadowRow).where(ShadowRow.id == outcome.id, ShadowRow.ended.is_(None))
        with self._database.session() as session:
            values = {
                "ended": self._database.now(session),
                "disagrees": outcome.disagrees,
                "tokens": outcome.tokens,
                "full_answer": None if text is None else text.replace("\x00", ""),
            }
            stored = ended.values(values).returning(ShadowRow.id)
            if session.scalar(stored) is not None:
                return True
            return session.get(ShadowRow, outcome.id) is not None

    def ungraded(self, limit: int = 100) -> list[Ungraded]:
        """Full-budget answers that differ from wrong ones, as far as a reference is stored."""
        rows = (
            select(ShadowRow.id, AnswerRow.profile, ShadowRow.full_answer, LabelRow.reference)
            .join(AnswerRow, AnswerRow.id == ShadowRow.id)
            .join(LabelRow, LabelRow.sequence == AnswerRow.sequence)
            .where(
                ShadowRow.drawn,
                ShadowRow.disagrees.is_(True),
                ShadowRow.full_right.is_(None),
                ShadowRow.full_answer.is_not(None),
                LabelRow.reference.is_not(None),
                LabelRow.trusted,
                AnswerRow.right.is_(False),
            )
            .order_by(LabelRow.number)
            .limit(limit)
        )
        with self._database.reading() as session:
            found = session.execute(rows)
            return [Ungraded(id_, by, str(answer), str(ref)) for id_, by, answer, ref in found]

    def grade(self, id_: str, right: bool | None) -> None:
        """Stores whether a full-budget answer is right; None if it cannot be graded.

        Then it loses its text, so that nothing waits for it.
        """
        with self._database.session() as session:
            if right is not None:
                note_full_right(session, id_, right)
                return
            session.execute(update(ShadowRow).where(ShadowRow.id == id_).values(full_answer=None))
