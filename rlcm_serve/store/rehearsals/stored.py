"""Which certificates are rehearsed, and what each level would have done, in the database."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, select, update
from sqlalchemy.orm import Session

from rlcm_serve.errors import NotFound
from rlcm_serve.evidence.rehearsal import Replayed
from rlcm_serve.store.answers.draws import drawn_at
from rlcm_serve.store.answers.table import AnswerRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.rehearsals.figures import (
    AnswerUnderLevel,
    LevelRehearsed,
    RehearsalFigures,
    level_rehearsed,
)
from rlcm_serve.store.rehearsals.table import RehearsalRow, RehearsedRow

MOST = 20_000
"""Answers that the figures of a level are about: the latest ones."""


class RehearsedAnswer(NamedTuple):
    """What the levels of rehearsed certificates would have done with an answer.

    Attributes:
        id: of the answer.
        has_place: whether it was drawn for audit and there was a place for its comparison. Both are
            decided when its question is asked.
        levels: what each would have done.
    """

    id: str
    has_place: bool
    levels: tuple[Replayed, ...]


class StoredRehearsals:
    """The rehearsals of all processes that share a database. May be used from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # One statement: processes that start together may not see each other's row.
        self._start = database.insert(RehearsalRow).on_conflict_do_update(
            index_elements=["certificate"], set_={"ended": None}
        )
        self._insert = database.insert(RehearsedRow).on_conflict_do_nothing()

    def start(self, digest: str, by: str | None) -> None:
        """Starts or resumes a rehearsal; earlier answers stay in its figures."""
        with self._database.session() as session:
            now = self._database.now(session)
            row = {"certificate": digest, "started": now, "started_by": by}
            session.execute(self._start, row)

    def stop(self, digest: str) -> None:
        """Ends a rehearsal; its figures stay.

        Raises:
            NotFound: there is none.
        """
        with self._database.session() as session:
            if not end_rehearsal(session, digest, self._database.now(session)):
                raise NotFound(f"certificate {digest[:12]} is not rehearsed now")

    def running(self) -> list[str]:
        """The digests of the certificates that are rehearsed now."""
        now = select(RehearsalRow.certificate).where(RehearsalRow.ended.is_(None))
        with self._database.reading() as session:
            return sorted(session.scalars(now))

    def all(self) -> list[str]:
        """The digests of all certificates that are or were rehearsed, those that run first."""
        order = RehearsalRow.ended.is_not(None), RehearsalRow.started.desc()
        with self._database.reading() as session:
            return list(session.scalars(select(RehearsalRow.certificate).order_by(*order)))

    def add(self, answers: Sequence[RehearsedAnswer]) -> set[str]:
        """Stores what levels would have done with answers.

        Returns:
            The ids for which this is stored now; an answer that is not stored itself has none yet.
        """
        with self._database.session() as session:
            of_answers = AnswerRow.id.in_([one.id for one in answers])
            found = session.execute(select(AnswerRow.id, AnswerRow.sequence).where(of_answers))
            numbers = {row.id: row.sequence for row in found}
            rows = [
                asdict(level) | {"id": id_, "sequence": numbers[id_], "has_place": has_place}
                for id_, has_place, levels in answers
                for level in levels
                if id_ in numbers
            ]
            if rows:
                session.execute(self._insert, rows)
        return set(numbers)

    def compared(self, id_: str, levels: Sequence[tuple[str, float, bool]]) -> None:
        """Stores whether levels give the same answer: certificate, alpha, and whether."""
        with self._database.session() as session:
            for digest, alpha, agrees in levels:
                of_level = RehearsedRow.certificate == digest, RehearsedRow.alpha == alpha
                row = update(RehearsedRow).where(RehearsedRow.id == id_, *of_level)
                session.execute(row.values(agrees=agrees))

    def levels(self, digest: str, alphas: Iterable[float]) -> tuple[LevelRehearsed, ...]:
        """What each level of a certificate would have done, without those that saw no answer."""
        with self._database.reading() as session:
            found = [self._level(session, digest, alpha) for alpha in sorted(alphas)]
        return tuple(level for level in found if level.questions)

    def figures(self, digest: str, levels: Sequence[LevelRehearsed]) -> RehearsalFigures | None:
        """A rehearsal with its `levels`; None if the certificate never was rehearsed."""
        with self._database.reading() as session:
            row = session.get(RehearsalRow, digest)
        return None if row is None else RehearsalFigures(row.started, row.ended, tuple(levels))

    def _level(self, session: Session, digest: str, alpha: float) -> LevelRehearsed:
        rows = first_asks(session.execute(latest_answers(digest, alpha)).all())
        placed = {row.id: row.audit_share for row in rows if row.has_place}
        least = min((row.audit_share for row in rows if row.audit_share > 0), default=0.0)
        alike = drawn_at(self._database, placed, least)
        return level_rehearsed(alpha, [_under_level(row, alike) for row in rows])


def _under_level(row: Row[Any], alike: Container[str]) -> AnswerUnderLevel:
    """A row of `latest_answers`; `alike` are the ids that count in what is lost and wrong."""
    return AnswerUnderLevel(
        row.tokens,
        row.tokens_at_least,
        row.undecided,
        row.answers,
        row.agrees,
        row.id in alike,
        row.right,
    )


def first_asks(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Of the rows of `latest_answers`, those of the first ask of each question among them.

    Of those that run side by side it is the one that was asked first, not the one that ended first.
    A question that is asked again, such as a health probe, is no independent draw.
    """
    asked = sorted(rows, key=lambda row: (row.started, row.sequence), reverse=True)
    first = {row.question_digest or row.id: row for row in asked}  # the first one comes last
    return list(first.values())


def latest_answers(digest: str, alpha: float) -> Select[*tuple[Any, ...]]:
    """The latest answers under a level, for `_under_level`.

    The index has them in this order, so it costs the same however many there are.
    """
    columns = (
        AnswerRow.id,
        AnswerRow.audit_share,
        RehearsedRow.tokens,
        RehearsedRow.tokens_at_least,
        RehearsedRow.undecided,
        RehearsedRow.answers,
        RehearsedRow.agrees,
        AnswerRow.right,
        RehearsedRow.has_place,
        AnswerRow.question_digest,
        AnswerRow.started,
        AnswerRow.sequence,
    )
    of_level = RehearsedRow.certificate == digest, RehearsedRow.alpha == alpha
    return (
        select(*columns)
        .join(AnswerRow, AnswerRow.sequence == RehearsedRow.sequence)
        .where(*of_level, RehearsedRow.sequence.is_not(None))
        .order_by(RehearsedRow.sequence.desc())
        .limit(MOST)
    )


def end_rehearsal(session: Session, digest: str, now: float) -> bool:
    """Ends a rehearsal; its figures stay. False if the certificate is not rehearsed."""
    running = RehearsalRow.certificate == digest, RehearsalRow.ended.is_(None)
    ended = update(RehearsalRow).where(*running).values(ended=now)
    return session.scalar(ended.returning(RehearsalRow.certificate)) is not None
