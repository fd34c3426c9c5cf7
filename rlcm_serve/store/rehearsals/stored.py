"""Which certificates are rehearsed, and what each level would have done, in the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from rlcm_serve.errors import NotFound
from rlcm_serve.store.answers.table import AnswerRow
from rlcm_serve.store.database import Database
from rlcm_serve.store.rehearsals.figures import LevelRehearsed, RehearsalFigures, level_rehearsed
from rlcm_serve.store.rehearsals.table import RehearsalRow, RehearsedRow

MOST = 20_000
"""Answers that the figures of a level are about: the latest ones."""


class StoredRehearsals:
    """The rehearsals of all processes that share a database. May be used from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect: Any = sqlite if database.is_sqlite else postgresql
        # One statement: processes that start together may not see each other's row.
        self._start = dialect.insert(RehearsalRow).on_conflict_do_update(
            index_elements=["certificate"], set_={"ended": None}
        )

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

    def compared(self, id_: str, levels: Sequence[tuple[str, float, bool]]) -> None:
        """Stores whether levels give the same answer: certificate, alpha, and whether."""
        with self._database.session() as session:
            for digest, alpha, agrees in levels:
                of_level = RehearsedRow.certificate == digest, RehearsedRow.alpha == alpha
                row = update(RehearsedRow).where(RehearsedRow.id == id_, *of_level)
                session.execute(row.values(agrees=agrees))

    def figures(self, digest: str) -> RehearsalFigures | None:
        """What the certificate would have done; None if it never was rehearsed."""
        with self._database.reading() as session:
            row = session.get(RehearsalRow, digest)
            if row is None:
                return None
            of_certificate = RehearsedRow.certificate == digest
            alphas = select(RehearsedRow.alpha).where(of_certificate).distinct()
            levels = [self._level(session, digest, alpha) for alpha in session.scalars(alphas)]
        return RehearsalFigures(row.started, row.ended, tuple(sorted(levels, key=_alpha)))

    def _level(self, session: Any, digest: str, alpha: float) -> LevelRehearsed:
        columns = (
            RehearsedRow.tokens,
            RehearsedRow.tokens_at_least,
            RehearsedRow.undecided,
            RehearsedRow.answers,
            RehearsedRow.agrees,
            AnswerRow.audited,
            AnswerRow.right,
        )
        rows = (
            select(*columns)
            .join(AnswerRow, AnswerRow.id == RehearsedRow.id)
            .where(RehearsedRow.certificate == digest, RehearsedRow.alpha == alpha)
            .order_by(AnswerRow.sequence.desc())
            .limit(MOST)
        )
        return level_rehearsed(alpha, [tuple(row) for row in session.execute(rows)])


def end_rehearsal(session: Session, digest: str, now: float) -> bool:
    """Ends a rehearsal; its figures stay. False if the certificate is not rehearsed."""
    running = RehearsalRow.certificate == digest, RehearsalRow.ended.is_(None)
    ended = update(RehearsalRow).where(*running).values(ended=now)
    return session.scalar(ended.returning(RehearsalRow.certificate)) is not None


def _alpha(level: LevelRehearsed) -> float:
    return level.alpha
