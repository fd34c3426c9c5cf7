"""Audited questions with a reference answer: labelled problems for a fresh certificate."""

from __future__ import annotations

from sqlalchemy import func, select

from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.database import Database


def audited_problems(database: Database, profile: str, since: float) -> list[LabelledProblem]:
    """The audited questions of a profile since a time, as far as they have a reference.

    The draw for audit is fair, so they are a fair sample if whoever labels gives a reference for
    all of them. The last label that enters the test counts: if it came without a reference, its
    answer has none. A question that was asked twice is taken once. Each problem has the id of its
    answer. It blocks.

    Args:
        database: holds answers and labels.
        profile: prompt profile under which they were asked.
        since: Unix time in seconds.
    """
    trusted = select(func.max(LabelRow.number)).where(
        LabelRow.sequence == AnswerRow.sequence, LabelRow.trusted
    )
    last = trusted.correlate(AnswerRow).scalar_subquery()
    wanted = (
        select(AnswerRow.id, AnswerRow.question, AnswerRow.kind, LabelRow.reference)
        .join(LabelRow, LabelRow.number == last)
        .where(
            AnswerRow.audited,
            AnswerRow.profile == profile,
            AnswerRow.started >= since,
            AnswerRow.question.is_not(None),
            LabelRow.reference.is_not(None),
        )
        .order_by(AnswerRow.sequence)
    )
    found: dict[str, LabelledProblem] = {}
    with database.reading() as session:
        for id_, question, kind, reference in session.execute(wanted):
            text, answer = str(question), str(reference)  # neither is null
            found.setdefault(text, LabelledProblem(id_, text, answer, kind=kind))
    return list(found.values())
