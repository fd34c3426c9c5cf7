"""What came of shadow runs, in the database, and the labels of their answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import or_, select, text, update

from rlcm_serve.solving.shadow.runs import ShadowOutcome
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.answers.texts import storable
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.counts import ShadowCounts
from rlcm_serve.store.shadows.table import UNGRADED, ShadowRow

_LAST_REFERENCE = (
    select(LabelRow.reference)
    .where(LabelRow.sequence == AnswerRow.sequence, LabelRow.trusted)
    .where(LabelRow.reference.is_not(None))
    .order_by(LabelRow.number.desc())
    .limit(1)
    .scalar_subquery()
)


class Ungraded(NamedTuple):
    """A full-budget answer that a stored reference can grade."""

    id: str
    profile: str
    answer: str
    reference: str
    grader: str | None


class StoredShadows:
    """The shadow runs of all processes that share a database. May be used from any thread.

    Args:
        database: holds the tables.
        texts: whether the texts of answers are kept.
    """

    def __init__(self, database: Database, *, texts: bool) -> None:
        self._database = database
        self._texts = texts
        self._counts = ShadowCounts(database)

    def end(self, outcome: ShadowOutcome) -> bool:
        """Stores what came of a run; False if its answer is not stored (yet).

        A run that ends after its deadline is missing, whether or not a monitor has looked by then.
        """
        answer = outcome.answer if self._texts else None
        ended = update(ShadowRow).where(ShadowRow.id == outcome.id, ShadowRow.ended.is_(None))
        with self._database.session() as session:
            now = self._database.now(session)
            self._counts.close(session, ShadowRow.id == outcome.id, ShadowRow.due < now)
            values = {
                "ended": now,
                "disagrees": outcome.disagrees,
                "tokens": outcome.tokens,
                "full_answer": None if answer is None else storable(answer),
            }
            stored = ended.values(values).returning(ShadowRow.certificate, ShadowRow.alpha)
            for certificate, alpha in session.execute(stored):
                self._counts.end(session, (certificate, alpha), disagrees=outcome.disagrees)
                return True
            return session.get(ShadowRow, outcome.id) is not None

    def ungraded(
        self, profiles: Sequence[str], without: Collection[str] = (), limit: int = 100
    ) -> list[Ungraded]:
        """Full-budget answers that differ from wrong ones or none, each with its last reference.

        Args:
            profiles: names of prompt profiles; answers under others are left to other processes.
            without: names of graders that are not here; so are those given under them.
            limit: largest number.
        """
        rows = (
            select(
                ShadowRow.id,
                AnswerRow.profile,
                ShadowRow.full_answer,
                _LAST_REFERENCE,
                AnswerRow.grader,
            )
            .join(AnswerRow, AnswerRow.id == ShadowRow.id)
            .where(
                text(UNGRADED),
                AnswerRow.profile.in_(profiles),
                AnswerRow.right.is_not(True),  # null if no answer could be read
                _LAST_REFERENCE.is_not(None),
            )
            .order_by(ShadowRow.id)
            .limit(limit)
        )
        if without:
            grader = AnswerRow.grader
            rows = rows.where(or_(grader.is_(None), grader.not_in(without)))
        with self._database.reading() as session:
            return [Ungraded(*row) for row in session.execute(rows)]

    def grade(self, one: Ungraded, right: bool | None) -> None:
        """Stores whether a full-budget answer is right; None if it cannot be graded.

        Then it loses its text, so that no process tries again. If a label or another process was
        faster, nothing changes, nor if another reference has come meanwhile.
        """
        values = {"full_answer": None} if right is None else {"full_right": right}
        ungraded = ShadowRow.id == one.id, ShadowRow.full_right.is_(None)
        with self._database.session() as session:
            # A label locks its answer too, so it comes before this or after it.
            locked = select(_LAST_REFERENCE).where(AnswerRow.id == one.id)
            if session.scalar(locked.with_for_update(of=AnswerRow)) == one.reference:
                session.execute(update(ShadowRow).where(*ungraded).values(values))
