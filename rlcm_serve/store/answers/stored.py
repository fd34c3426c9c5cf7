"""Answers and their labels in the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, func, or_, select, text
from sqlalchemy.orm import Session

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import GivenAnswer, Label
from rlcm_serve.store.answers.counts import LabelCounts, level_of
from rlcm_serve.store.answers.table import (
    UNLABELLED,
    UNREAD,
    AnswerRow,
    LabelCountsRow,
    LabelRow,
)
from rlcm_serve.store.answers.texts import storable
from rlcm_serve.store.caller import Caller
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.counts import ShadowCounts
from rlcm_serve.store.shadows.table import ShadowRow, forget_full_right, note_full_right

SHADOW_DEADLINE = 3600.0
"""Seconds after an answer in which its shadow run must end."""
AT_ONCE = 500
"""Labels of one transaction, and ids of one query."""
MOST_LABELS = 100
"""Labels that are kept of one answer; as many trusted ones, so that others cannot use these up."""
_ORDER_LOCK = 0x726C6361
"""Advisory lock in PostgreSQL, so that the numbers of answers are in the order of their commits: a
monitor that has read up to a number never finds a smaller one later ("rlca")."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """What a label of an answer is checked against.

    Attributes:
        profile: of the question.
        grader: that of the profile then, as in a fingerprint; None in rows of older releases.
        answered: whether there is an answer to label.
        answer: its text; None where texts are not kept.
        digest: of the answer, by `AuditDraw.digest`.
        asks_reference: whether a reference is of use although there is no answer: the question was
            drawn for audit, and its text is kept.
        asks_full_right: whether the test of `regret` may ask if the full budget's answer is right,
            although there is no answer: the question was drawn for audit.
    """

    profile: str
    grader: str | None
    answered: bool
    answer: str | None
    digest: bytes | None
    asks_reference: bool = False
    asks_full_right: bool = False


@dataclass(slots=True)
class Labelled:
    """What became of labels: numbers of answers, and the ids that are not known, or `refused`
    because their answers have `MOST_LABELS` already.

    Labels that enter the test and others are told apart: each may be the first of its answer.
    """

    labelled: int = 0
    corrected: int = 0
    unchanged: int = 0
    audited: int = 0
    unknown: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


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
        self._counts = LabelCounts(database)
        self._shadow_counts = ShadowCounts(database)
        self._insert = database.insert(AnswerRow).on_conflict_do_nothing(index_elements=["id"])
        insert_draws = database.insert(ShadowRow).on_conflict_do_nothing()
        columns = ShadowRow.certificate, ShadowRow.alpha, ShadowRow.share, ShadowRow.drawn
        self._insert_draws = insert_draws.returning(*columns)

    def add(self, answers: Sequence[GivenAnswer]) -> None:
        """Stores answers, all or none; one that is stored already stays as it is."""
        rows = [self._row(answer) for answer in answers]
        with self._database.session() as session:
            if not self._database.is_sqlite:
                session.execute(text(f"SELECT pg_advisory_xact_lock({_ORDER_LOCK})"))
            drawn = {one.id: one for one in answers if one.audited and one.answered}
            if drawn:
                known = select(AnswerRow.id).where(AnswerRow.id.in_(list(drawn)))
                for id_ in session.scalars(known):
                    del drawn[id_]
            session.execute(self._insert, rows)
            levels = ((level_of(one.certificate, one.alpha), one.due) for one in drawn.values())
            self._counts.add(session, levels)
            if draws := self._draws(answers):
                rows_drawn = session.execute(self._insert_draws, draws)
                new = (((row.certificate, row.alpha), row.share, row.drawn) for row in rows_drawn)
                self._shadow_counts.draw(session, new)

    def find(self, ids: Sequence[str], caller: Caller) -> dict[str, KnownAnswer]:
        """The answers with these ids that the caller may label."""
        found = {}
        with self._database.reading() as session:
            for some in _parts(ids):
                for row in session.scalars(select(AnswerRow).where(AnswerRow.id.in_(some))):
                    if caller.may_label(row.key_id):
                        found[row.id] = KnownAnswer(
                            row.profile,
                            row.grader,
                            row.answered,
                            row.answer,
                            row.answer_digest,
                            row.audited and not row.answered and row.question is not None,
                            _asks_full_right(row),
                        )
        return found

    def label(self, labels: Sequence[Label], caller: Caller) -> Labelled:
        """Stores labels in their order. Answers that the caller may not see count as unknown.

        Raises:
            DatabaseRefused: the database cannot be used; the message says how many were stored.
        """
        done = Labelled()
        stored = 0
        for some in _parts(labels):
            try:
                with self._database.session() as session:
                    self._label(session, some, caller, done)
            except DatabaseRefused as error:
                if not stored:
                    raise
                raise type(error)(
                    str(error),
                    f"the database could not be written to the end: {stored} of {len(labels)} "
                    "labels were stored; send the request again, those will be unchanged",
                ) from error
            stored += len(some)
        return done

    def skip(self, ids: Sequence[str], caller: Caller) -> int:
        """Ends the wait for the labels of answers, as if their deadlines had passed.

        Returns:
            How many waited, of those that the caller may label.
        """
        skipped = 0
        for some in _parts(ids):
            with self._database.session() as session:
                waits = or_(and_(*UNLABELLED), and_(*UNREAD), and_(*_LEFT_OPEN))
                waiting = select(AnswerRow).where(AnswerRow.id.in_(some), waits)
                locked = waiting.order_by(AnswerRow.sequence).with_for_update()
                rows = [row for row in session.scalars(locked) if caller.may_label(row.key_id)]
                of_row = [level_of(row.certificate, row.alpha) for row in rows]
                counts = self._counts.locked(session, of_row)
                now = self._database.now(session)
                for row, level in zip(rows, of_row, strict=True):
                    # Not before `overdue_at`: who reads the counts would miss it.
                    ended = max(now, counts[level].overdue_at)
                    if row.due > ended:
                        row.due = ended
                        skipped += 1
        return skipped

    def _label(
        self, session: Session, labels: Sequence[Label], caller: Caller, done: Labelled
    ) -> None:
        now = self._database.now(session)
        wanted = select(AnswerRow).where(AnswerRow.id.in_([label.id for label in labels]))
        # In one order, so that no two processes wait for each other.
        locked = wanted.order_by(AnswerRow.sequence).with_for_update()
        rows = {row.id: row for row in session.scalars(locked) if caller.may_label(row.key_id)}
        of_row = {id_: level_of(row.certificate, row.alpha) for id_, row in rows.items()}
        counts = self._counts.locked(session, of_row.values())
        known = _last_labels(session, rows.values())
        for label in labels:
            row = rows.get(label.id)
            if row is None:
                done.unknown.append(label.id)
                continue
            is_news = (
                label.trusted
                and label.full_right is not None
                and note_full_right(session, label.id, label.full_right)
            )
            last = row.sequence, label.trusted
            new = self._label_row(row, label, now)
            number, reference = known.get(last, (0, None))
            is_corrected = new.reference is not None and new.reference != reference
            if not _says_more(row, label, again=is_corrected or is_news):
                done.unchanged += 1
            elif number >= MOST_LABELS:
                done.refused.append(label.id)
            else:
                if label.trusted and is_corrected and label.full_right is None:
                    forget_full_right(session, label.id)
                self._take(row, label, counts[of_row[label.id]], now, done)
                session.add(new)
                known[last] = number + 1, new.reference

    def _take(
        self, row: AnswerRow, label: Label, counts: LabelCountsRow, now: float, done: Labelled
    ) -> None:
        """Puts a label that says more to its answer, and counts it."""
        if not row.answered:
            done.labelled += row.labelled is None
            done.corrected += row.labelled is not None
            if row.labelled is None and _asks_full_right(row):
                done.audited += now <= row.due
            row.labelled = row.labelled or now
            return
        before = row.right if label.trusted else row.reported
        if before == label.right:
            done.corrected += 1
            return
        _count(counts, row, -1)
        if before is None:
            done.labelled += 1
        else:
            done.corrected += 1
        if not label.trusted:
            row.reported = label.right
        else:
            if row.labelled is None and row.audited:
                done.audited += now <= row.due
                counts.late += now > row.due
                counts.overdue -= row.due < counts.overdue_at
            row.labelled = row.labelled or now
            row.right = label.right
        _count(counts, row, 1)

    def _label_row(self, row: AnswerRow, label: Label, now: float) -> LabelRow:
        reference = label.reference if self._texts else None
        return LabelRow(
            sequence=row.sequence,
            right=label.right,
            trusted=label.trusted,
            key_id=label.by,
            time=now,
            reference=None if reference is None else storable(reference),
        )

    def _draws(self, answers: Sequence[GivenAnswer]) -> list[dict[str, Any]]:
        return [
            {
                "id": answer.id,
                "certificate": answer.certificate,
                "alpha": answer.alpha,
                "share": answer.shadow.share,
                "drawn": answer.shadow.drawn,
                "due": answer.time + SHADOW_DEADLINE,
            }
            for answer in answers
            if answer.shadow is not None and answer.certificate is not None
        ]

    def _row(self, answer: GivenAnswer) -> dict[str, Any]:
        kept = {name: getattr(answer, name) for name in _PLAIN}
        if answer.under is not None:
            kept |= answer.under._asdict()
        kept["answer_digest"] = None if answer.answer is None else self._draw.digest(answer.answer)
        for name in ("kind", "profile", "question", "answer"):
            text_ = getattr(answer, name)
            kept[name] = None if text_ is None else storable(text_)
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
    "question_digest",
    "departs",
)


def _last_labels(
    session: Session, rows: Iterable[AnswerRow]
) -> dict[tuple[int, bool], tuple[int, str | None]]:
    """How many labels answers have, and the last one's reference, by number and whether trusted."""
    group = LabelRow.sequence, LabelRow.trusted
    of_rows = LabelRow.sequence.in_([row.sequence for row in rows])
    last, count = func.max(LabelRow.number).label("last"), func.count().label("count")
    counted = select(last, count).where(of_rows).group_by(*group).subquery()
    found = select(*group, counted.c.count, LabelRow.reference).join(
        counted, LabelRow.number == counted.c.last
    )
    return {
        (sequence, trusted): (number, reference)
        for sequence, trusted, number, reference in session.execute(found)
    }


def _says_more(row: AnswerRow, label: Label, *, again: bool) -> bool:
    """Whether a label changes what is known.

    `again` says that its reference is a new one, or what it says of the full budget's answer.
    """
    if not row.answered:
        is_first = label.full_right is not None and row.labelled is None
        return label.trusted and (again or is_first)
    return again or label.right != (row.right if label.trusted else row.reported)


_LEFT_OPEN = (
    *(AnswerRow.audited, AnswerRow.labelled.is_not(None), AnswerRow.risk == "regret"),
    AnswerRow.right.is_not(True),
    select(ShadowRow.id)
    .where(
        ShadowRow.id == AnswerRow.id, ShadowRow.disagrees.is_(True), ShadowRow.full_right.is_(None)
    )
    .exists(),
)
"""Answers whose label does not say whether the full budget's answer, another one, is right."""


def _asks_full_right(row: AnswerRow) -> bool:
    return row.audited and not row.answered and row.risk == "regret"


def _count(counts: LabelCountsRow, row: AnswerRow, number: int) -> None:
    """Adds an answer to the count that it belongs to, by its label."""
    enters = row.audited and row.right is not None
    right = row.right if row.right is not None else row.reported
    if right is None:
        return
    name = ("" if enters else "others_") + ("right" if right else "wrong")
    setattr(counts, name, getattr(counts, name) + number)


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
