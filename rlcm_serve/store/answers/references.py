"""Audited questions with a reference answer: labelled problems for a fresh certificate."""

from __future__ import annotations

from sqlalchemy import select

from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.database import Database


def audited_problems(database: Database, profile: str, since: float) -> list[LabelledProblem]:
    """The audited questions of a profile since a time, as far as they have a reference.

    The draw for audit is fair, so they are a fair sample if whoever labels gives a reference for
    all of them. References count whose labels enter the test, and no others. A question that was
    asked twice is taken once. Each problem has the id of its answer. It blocks.

    Args:
        database: holds answers and labels.
        profile: prompt profile under which they were asked.
        since: Unix time in seconds.
    """
    wanted = (
        select(AnswerRow.id, AnswerRow.question, AnswerRow.kind, LabelRow.reference)
        .join(LabelRow, LabelRow.sequence == AnswerRow.sequence)
        .where(
            AnswerRow.audited,
            AnswerRow.profile == profile,
            AnswerRow.started >= since,
            AnswerRow.question.is_not(None),
            LabelRow.reference.is_not(None),
            LabelRow.trusted,
        )
        .order_by(AnswerRow.sequence, LabelRow.number)
    )
    found: dict[str, LabelledProblem] = {}
    with database.reading() as session:
        for id_, question, kind, reference in session.execute(wanted):
            text, answer = str(question), str(reference)  # neither is null
            if text in found and found[text].id != id_:
                continue  # asked again
            found[text] = LabelledProblem(id_, text, answer, kind=kind)
    return list(found.values())
