"""What monitors read of shadow runs, beside their answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Select, and_, select

from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.monitoring.losses import SeenAnswer, SeenShadow
from rlcm_serve.monitoring.records import MonitorKind
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.shadows.table import ShadowRow

_ANSWER = [getattr(AnswerRow, name) for name in SeenAnswer.__slots__ if name != "shadow"]
_RUN = [getattr(ShadowRow, name) for name in SeenShadow.__slots__ if name != "gradable"]
_GRADABLE = and_(
    ShadowRow.full_answer.is_not(None),
    select(LabelRow.number)
    .where(
        LabelRow.sequence == AnswerRow.sequence, LabelRow.reference.is_not(None), LabelRow.trusted
    )
    .exists(),
)


def reads_shadows(monitor: Monitor) -> bool:
    """Whether a monitor reads shadow runs."""
    is_regret = monitor.what is MonitorKind.RISK and monitor.risk == "regret"
    return is_regret or monitor.what is MonitorKind.SHADOW


def answers_for(*, with_shadows: bool) -> Select[Any]:
    """The query for what monitors read of answers; its rows are for `seen_answer`."""
    if not with_shadows:
        return select(*_ANSWER)
    columns = select(*_ANSWER, *_RUN, _GRADABLE)
    return columns.outerjoin(ShadowRow, ShadowRow.id == AnswerRow.id)


def seen_answer(row: Any) -> SeenAnswer:
    """A row of `answers_for`."""
    answer, run = row[: len(_ANSWER)], row[len(_ANSWER) :]
    seen = SeenAnswer(*answer)
    has_run = bool(run) and run[0] is not None
    return replace(seen, shadow=SeenShadow(*run)) if has_run else seen
