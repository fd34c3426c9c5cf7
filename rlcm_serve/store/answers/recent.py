"""Lists of answers in the database: the latest, and those that wait for a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import undefer

from rlcm_serve.monitoring.losses import SeenShadow
from rlcm_serve.store.answers.table import DECLINED, UNLABELLED, AnswerRow, WithdrawalRow
from rlcm_serve.store.caller import Caller, Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.seen import SHADOW_COLUMNS, seen_shadow
from rlcm_serve.store.shadows.table import ShadowRow

MOST_LOOKED_AT = 20_000
"""Answers that are looked at for one page, so that a filter which few pass costs no more."""

LabelFilter = Literal["right", "wrong", "none"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which answers to list; None leaves a filter out.

    Attributes:
        limit: largest number of answers.
        before: only answers stored before the one with this number.
        certificate: id of the certificate that covers them.
        alpha: certified level.
        answered: whether there is an answer, rather than an abstention.
        audited: whether they were drawn for audit.
        label: what their label says; `none` for those without one.
    """

    limit: int
    before: int | None = None
    certificate: str | None = None
    alpha: float | None = None
    answered: bool | None = None
    audited: bool | None = None
    label: LabelFilter | None = None

    def conditions(self) -> list[Any]:
        """The filters, in SQL."""
        found: list[Any] = []
        if self.certificate is not None:
            found.append(func.substr(AnswerRow.certificate, 1, 12) == self.certificate)
        if self.alpha is not None:
            found.append(AnswerRow.alpha == self.alpha)
        if self.answered is not None:
            found.append(AnswerRow.answered.is_(self.answered))
        if self.audited is not None:
            found.append(AnswerRow.audited.is_(self.audited))
        shown = func.coalesce(AnswerRow.right, AnswerRow.reported)
        if self.label == "none":
            found.append(shown.is_(None))
        elif self.label is not None:
            found.append(shown.is_(self.label == "right"))
        return found


class ListedAnswer(NamedTuple):
    """An answer, and its shadow run; None if none could be drawn."""

    row: AnswerRow
    shadow: SeenShadow | None


def recent_answers(database: Database, wanted: Wanted) -> tuple[list[ListedAnswer], int | None]:
    """The latest of the wanted answers, the newest first, and the `before` of the next page.

    They have `repeated`. A page may have fewer than `limit` answers, or none, although there are
    more: then `before` is not None. It blocks.
    """
    earlier = [] if wanted.before is None else [AnswerRow.sequence < wanted.before]
    newest = AnswerRow.sequence.desc()
    looked_at = select(AnswerRow.sequence).where(*earlier).order_by(newest).limit(MOST_LOOKED_AT)
    window = looked_at.subquery()
    with database.reading() as session:
        count, oldest = session.execute(
            select(func.count(), func.min(window.c.sequence)).select_from(window)
        ).one()
        if oldest is None:
            return [], None
        inside = AnswerRow.sequence >= oldest
        rows = select(AnswerRow, *SHADOW_COLUMNS).where(*earlier, inside, *wanted.conditions())
        rows = rows.outerjoin(ShadowRow, ShadowRow.id == AnswerRow.id)
        rows = rows.options(undefer(AnswerRow.repeated))
        listed = session.execute(rows.order_by(newest).limit(wanted.limit + 1))
        found = [ListedAnswer(row, seen_shadow(run)) for row, *run in listed]
    if len(found) > wanted.limit:
        del found[wanted.limit :]
        return found, found[-1].row.sequence if found else None
    return found, oldest if count == MOST_LOOKED_AT else None


class WaitingAnswer(NamedTuple):
    """An answer that waits for a label, and what came of its shadow run.

    `full_answer` and `disagrees` are as in `ShadowRow`; both are None without a run that gave a
    result.
    """

    row: AnswerRow
    full_answer: str | None
    disagrees: bool | None


def waiting_answers(
    database: Database, caller: Caller, limit: int
) -> tuple[int, list[WaitingAnswer]]:
    """How many answers that the caller may see wait for a label, and the oldest of them.

    Answers whose deadline has passed do not wait. After them come abstentions since the last
    withdrawal that wait for a reference, if the caller's labels enter the test: a fresh
    certificate needs them. It blocks.
    """
    with database.reading() as session:
        waits = [*UNLABELLED, AnswerRow.due > database.now(session), *_visible(caller)]
        count = session.scalar(select(func.count()).select_from(AnswerRow).where(*waits))
        oldest = (
            select(AnswerRow, ShadowRow.full_answer, ShadowRow.disagrees)
            .outerjoin(ShadowRow, ShadowRow.id == AnswerRow.id)
            .where(*waits)
            .order_by(AnswerRow.due, AnswerRow.sequence)
            .limit(limit)
        )
        found = [WaitingAnswer(*row) for row in session.execute(oldest)]
        since = session.scalar(select(func.max(WithdrawalRow.time)))
        if since is None or not caller.may(Scope.LABEL):
            return count or 0, found
        declined = [*DECLINED, AnswerRow.started >= since, AnswerRow.question.is_not(None)]
        rows = select(AnswerRow).where(*declined).order_by(AnswerRow.started, AnswerRow.sequence)
        left = session.scalars(rows.limit(limit - len(found)))
        found += [WaitingAnswer(row, None, None) for row in left]
        others = session.scalar(select(func.count()).select_from(AnswerRow).where(*declined))
    return (count or 0) + (others or 0), found


def _visible(caller: Caller) -> list[Any]:
    """The condition on answers that wait for this caller's label."""
    if caller.may(Scope.LABEL):
        return []
    return [AnswerRow.key_id == caller.key_id, AnswerRow.reported.is_(None)]
