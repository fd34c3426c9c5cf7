"""Audited questions with a reference answer: labelled problems for a fresh certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, func, or_, select

from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.store.answers.draws import drawn_at
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.database import Database


class _Asked(NamedTuple):
    id: str
    question: str
    kind: str | None
    answered: bool
    reference: str | None
    share: float


def audited_problems(
    database: Database, profiles: Sequence[str], setup: str, since: float
) -> list[LabelledProblem]:
    """The audited questions of a setup since a time, as far as they have a reference.

    They are a fair sample of the questions that could be drawn, if whoever labels gives a reference
    for all of them, whatever the service did. Where shares for audit differ between keys, kinds or
    times, questions count that the draw chooses at the smallest of these shares: the same hash
    chose them at larger ones. Keys and kinds with share 0 are left out. Questions that were cut by
    a time limit, their caller or an error are not stored, so they are missing here, too.

    The last label that enters the test counts: if it came without a reference, its answer has none.
    Only the first ask of a question counts, whether or not it was drawn: a question that is asked
    a hundred times would be drawn almost surely, and such questions may be easier than others.
    Questions with a conversation or a schema that was not the profile's are left out: no
    certificate covers them. Each problem has the id of its answer. It blocks.

    Args:
        database: holds answers and labels.
        profiles: names of the prompt profiles that have the setup. Answers of older releases say no
            setup, so those under these profiles are taken.
        setup: of the engine under these profiles, as in `ServedUnder`. Processes with other models
            may share the database, and profiles may have been renamed.
        since: Unix time in seconds.

    Raises:
        RequestRefused: a declined question has no reference, although a later one has: those that
            are left would be easier than the questions that are asked.
    """
    found: dict[str, LabelledProblem] = {}
    declined: set[str] = set()
    without: set[str] = set()
    for one in _fair(database, profiles, setup, since):
        text = one.question
        if one.reference is not None:
            found.setdefault(text, LabelledProblem(one.id, text, one.reference, kind=one.kind))
            without |= declined
            declined.clear()
        elif not one.answered:
            declined.add(text)
    if missing := without - set(found):
        raise RequestRefused(
            "data",
            f"{len(missing)} audited questions that the service declined have no reference, and "
            "without them the others are too easy a sample: send their references with POST "
            "/feedback (GET /audit lists them), or give labelled problems drawn since the "
            "withdrawal, with `rlcm recalibrate ID --data FILE`",
        )
    return list(found.values())


def _fair(
    database: Database, profiles: Sequence[str], setup: str, since: float
) -> Sequence[_Asked]:
    """The audited questions that have a text, in order; all drawn with the same probability."""
    of_older_releases = and_(AnswerRow.setup.is_(None), AnswerRow.profile.in_(profiles))
    of_setup = (
        or_(AnswerRow.setup == setup, of_older_releases),
        AnswerRow.started >= since,
        AnswerRow.departs.is_not(True),
    )
    trusted = select(func.max(LabelRow.number)).where(
        LabelRow.sequence == AnswerRow.sequence, LabelRow.trusted
    )
    last = trusted.correlate(AnswerRow).scalar_subquery()
    columns: Any = (
        AnswerRow.id,
        AnswerRow.question,
        AnswerRow.kind,
        AnswerRow.answered,
        LabelRow.reference,
        AnswerRow.audit_share,
    )
    drawn = (
        select(*columns)
        .outerjoin(LabelRow, LabelRow.number == last)
        .where(AnswerRow.audited, *of_setup, AnswerRow.question.is_not(None))
        .order_by(AnswerRow.sequence)
    )
    share = AnswerRow.audit_share
    could_be = *of_setup, share > 0
    of_question = func.row_number().over(
        partition_by=AnswerRow.question_digest, order_by=(AnswerRow.started, AnswerRow.sequence)
    )
    asks = select(AnswerRow.sequence, of_question.label("ask")).where(*could_be).subquery()
    firsts = select(asks.c.sequence).where(asks.c.ask == 1)
    unknown = AnswerRow.question_digest.is_(None)  # in rows of older releases
    drawn = drawn.where(or_(unknown, AnswerRow.sequence.in_(firsts)))
    with database.reading() as session:
        least = session.scalar(select(func.min(share)).where(*could_be))
        rows = [_Asked(*row) for row in session.execute(drawn)]
    alike = drawn_at(database, {row.id: row.share for row in rows}, least or 0.0)
    return [row for row in rows if row.id in alike]
