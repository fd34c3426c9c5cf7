"""Answers and their labels in the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import GivenAnswer, Label
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.caller import Caller
from rlcm_serve.store.database import Database

AT_ONCE = 500
"""Labels of one transaction, and ids of one query."""
_ORDER_LOCK = 0x726C6361
"""Advisory lock in PostgreSQL, so that the numbers of answers are in the order of their commits: a
monitor that has read up to a number never finds a smaller one later ("rlca")."""
_WAITS = (AnswerRow.audited, AnswerRow.answered, AnswerRow.labelled.is_(None))


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """What a label of an answer is checked against.

    Attributes:
        profile: of the question; names the grader.
        answered: whether there is an answer to label.
        answer: its text; None where texts are not kept.
        digest: of the answer, by `AuditDraw.digest`.
    """

    profile: str
    answered: bool
    answer: str | None
    digest: bytes | None


@dataclass(slots=True)
class Labelled:
    """What became of labels: numbers of answers, and the ids that are not known."""

    labelled: int = 0
    corrected: int = 0
    unchanged: int = 0
    audited: int = 0
    unknown: list[str] = field(default_factory=list)


class StoredAnswers:
    """The answers of all processes that share a database. May be used from any thread.

    Args:
        database: holds the tables.
        draw: makes the digests of answers.
        texts: whether the texts of questions and answers are kept.
    """

    def __init__(self, database: Database, draw: AuditDraw, *, texts: bool = False) -> None:
        self._database = database
        self._draw = draw
        self._texts = texts
        dialect: Any = sqlite if database.is_sqlite else postgresql
        self._insert = dialect.insert(AnswerRow).on_conflict_do_nothing(index_elements=["id"])

    def add(self, answers: Sequence[GivenAnswer]) -> None:
        """Stores answers, all or none; one that is stored already stays as it is."""
        rows = [self._row(answer) for answer in answers]
        with self._database.session() as session:
            if not self._database.is_sqlite:
                session.execute(text(f"SELECT pg_advisory_xact_lock({_ORDER_LOCK})"))
            session.execute(self._insert, rows)

    def find(self, ids: Sequence[str], caller: Caller) -> dict[str, KnownAnswer]:
        """The answers with these ids that the caller may label."""
        found = {}
        with self._database.reading() as session:
            for some in _parts(ids):
                for row in session.scalars(select(AnswerRow).where(AnswerRow.id.in_(some))):
                    if caller.sees(row.key_id):
                        found[row.id] = KnownAnswer(
                            row.profile, row.answered, row.answer, row.answer_digest
                        )
        return found

    def label(self, labels: Sequence[Label], caller: Caller) -> Labelled:
        """Stores labels in their order. Answers that the caller may not see count as unknown."""
        done = Labelled()
        for some in _parts(labels):
            with self._database.session() as session:
                self._label(session, some, caller, done)
        return done

    def waiting(self, caller: Caller, limit: int) -> tuple[int, list[AnswerRow]]:
        """How many answers that the caller may see wait for a label, and the oldest of them.

        Answers whose deadline has passed do not wait.
        """
        with self._database.reading() as session:
            now = self._database.now(session)
            waits = [*_WAITS, AnswerRow.due > now, *_visible(caller)]
            count = session.scalar(select(func.count()).select_from(AnswerRow).where(*waits))
            oldest = select(AnswerRow).where(*waits).order_by(AnswerRow.sequence).limit(limit)
            return count or 0, list(session.scalars(oldest))

    def _label(
        self, session: Session, labels: Sequence[Label], caller: Caller, done: Labelled
    ) -> None:
        now = self._database.now(session)
        wanted = select(AnswerRow).where(AnswerRow.id.in_([label.id for label in labels]))
        # In one order, so that no two processes wait for each other.
        locked = wanted.order_by(AnswerRow.sequence).with_for_update()
        rows = {row.id: row for row in session.scalars(locked) if caller.sees(row.key_id)}
        for label in labels:
            row = rows.get(label.id)
            if row is None:
                done.unknown.append(label.id)
            elif row.right == label.right:
                done.unchanged += 1
            else:
                if row.labelled is None:
                    done.labelled += 1
                    done.audited += row.audited and now <= row.due
                    row.labelled = now
                else:
                    done.corrected += 1
                row.right = label.right
                session.add(self._label_row(row, label, now))

    def _label_row(self, row: AnswerRow, label: Label, now: float) -> LabelRow:
        reference = label.reference if self._texts else None
        return LabelRow(
            sequence=row.sequence,
            right=label.right,
            key_id=label.by,
            time=now,
            reference=None if reference is None else _storable(reference),
        )

    def _row(self, answer: GivenAnswer) -> dict[str, Any]:
        kept = {name: getattr(answer, name) for name in _PLAIN}
        kept["answer_digest"] = None if answer.answer is None else self._draw.digest(answer.answer)
        for name in ("kind", "profile", "question", "answer"):
            text_ = getattr(answer, name)
            kept[name] = None if text_ is None else _storable(text_)
        if not self._texts:
            kept |= {"question": None, "answer": None}
        return kept


_PLAIN = (
    "id",
    "key_id",
    "started",
    "time",
    "certificate",
    "alpha",
    "risk",
    "answered",
    "confidence",
    "tokens",
    "familiarity",
    "audited",
    "audit_share",
    "due",
)


def _visible(caller: Caller) -> list[Any]:
    """The condition on answers that the caller may see; none for `admin`."""
    return [] if caller.sees(None) else [AnswerRow.key_id == caller.key_id]


def _storable(text_: str) -> str:
    """The text without what a database or UTF-8 refuses: NUL, and half surrogate pairs."""
    return text_.replace("\x00", "").encode("utf-8", "replace").decode()


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
