"""`GET /answers`: recent answers on the wire."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

from rlcm_serve.api.context import Context
from rlcm_serve.api.wire.certificates import iso
from rlcm_serve.api.wire.monitoring.answers import RecentAnswer
from rlcm_serve.monitoring.losses import is_tested
from rlcm_serve.store.answers.recent import ListedAnswer
from rlcm_serve.store.answers.table import AnswerRow
from rlcm_serve.store.caller import Caller, Scope
from rlcm_serve.store.shadows.seen import seen_row

_LABELS: Mapping[bool | None, Literal["right", "wrong"] | None] = {
    None: None,
    True: "right",
    False: "wrong",
}


def recent_answer(context: Context, caller: Caller, listed: ListedAnswer) -> RecentAnswer:
    """A stored answer, as far as the caller may know of it."""
    row = listed.row
    may_read = caller.sees(row.key_id)
    recorded = may_read and caller.may(Scope.SOLVE) and _has_record(context, row)
    return RecentAnswer(
        id=row.id,
        asked=iso(row.started),
        time=iso(row.time),
        key=row.key_id,
        kind=row.kind,
        profile=row.profile,
        risk=row.risk,
        certificate=None if row.certificate is None else row.certificate[:12],
        alpha=row.alpha,
        outcome="answered" if row.answered else "abstained",
        confidence=row.confidence,
        tokens=row.tokens,
        familiarity=row.familiarity,
        audit=row.audited,
        due=iso(row.due),
        label=_LABELS[row.reported if row.right is None else row.right],
        tested=_is_tested(listed),
        question=row.question if may_read else None,
        answer=row.answer if may_read else None,
        record=f"/answers/{row.id}" if recorded else None,
    )


def _is_tested(listed: ListedAnswer) -> bool:
    row = listed.row
    is_first = row.certificate is not None and not row.repeated
    return is_first and is_tested(row.risk, seen_row(row, listed.shadow))


def _has_record(context: Context, row: AnswerRow) -> bool:
    days = context.settings.evidence_days
    is_kept = days is None or row.time > time.time() - 86_400 * days
    return context.evidence is not None and is_kept
