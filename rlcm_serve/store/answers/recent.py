"""Lists of answers in the database: the latest, and those that wait for a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import and_, func, not_, select
from sqlalchemy.orm import Session, undefer

from rlcm_serve.monitoring.losses import SeenShadow
from rlcm_serve.store.answers.counts import unread_waiting
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

    Answers whose deadline has passed do not wait. If the caller's labels enter the test, answers
    under `regret` that could not be read are among them, where the full budget gave an answer.
    After them come abstentions since the last withdrawal that wait for a reference: a fresh
    certificate needs them. It blocks.
    """
    with database.reading() as session:
        now = database.now(session)
        waits = [*UNLABELLED, AnswerRow.due > now, *_visible(caller)]
        count, found = _oldest(session, waits, AnswerRow.due, limit)
        if not caller.may(Scope.LABEL):
            return count, found
        unread, lost = _oldest(session, unread_waiting(now), AnswerRow.due, limit)
        found = sorted([*found, *lost], key=lambda one: (one.row.due, one.row.sequence))[:limit]
        since = session.scalar(select(func.max(WithdrawalRow.time)))
        if since is None:
            return count + unread, found
        is_unread = AnswerRow.risk == "regret", AnswerRow.due > now, ShadowRow.disagrees.is_(True)
        declined = [
            *DECLINED,
            AnswerRow.started >= since,
            AnswerRow.question.is_not(None),
            not_(and_(*is_unread)),
        ]
        others, left = _oldest(session, declined, AnswerRow.started, limit - len(found))
    return count + unread + others, [*found, *left]


def _oldest(
    session: Session, conditions: Sequence[Any], time: Any, limit: int
) -> tuple[int, list[WaitingAnswer]]:
    """How many answers meet conditions, which may be on their shadow runs, and the oldest."""
    joined = ShadowRow.id == AnswerRow.id
    counted = select(func.count()).select_from(AnswerRow).outerjoin(ShadowRow, joined)
    rows = select(AnswerRow, ShadowRow.full_answer, ShadowRow.disagrees)
    rows = rows.outerjoin(ShadowRow, joined).where(*conditions)
    rows = rows.order_by(time, AnswerRow.sequence).limit(limit)
    count = session.scalar(counted.where(*conditions)) or 0
    return count, [WaitingAnswer(*row) for row in session.execute(rows)]


def _visible(caller: Caller) -> list[Any]:
    """The condition on answers that wait for this caller's label."""
    if caller.may(Scope.LABEL):
        return []
    return [AnswerRow.key_id == caller.key_id, AnswerRow.reported.is_(None)]
