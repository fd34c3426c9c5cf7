"""What monitors read of shadow runs, beside their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Select, select

from rlcm_serve.monitoring.advance import Monitor
from rlcm_serve.monitoring.losses import SeenAnswer, SeenShadow
from rlcm_serve.monitoring.records import MonitorKind
from rlcm_serve.store.answers.table import AnswerRow
from rlcm_serve.store.shadows.table import ShadowRow

_NAMES = [name for name in SeenAnswer.__slots__ if name != "shadow"]
_ANSWER = [getattr(AnswerRow, name) for name in _NAMES]

SHADOW_COLUMNS = tuple(getattr(ShadowRow, name) for name in SeenShadow.__slots__)
"""What a query reads of shadow runs, joined to their answers; it is for `seen_shadow`."""


def reads_shadows(monitor: Monitor) -> bool:
    """Whether a monitor reads shadow runs."""
    is_regret = monitor.what is MonitorKind.RISK and monitor.risk == "regret"
    return is_regret or monitor.what is MonitorKind.SHADOW


def answers_for(*, with_shadows: bool) -> Select[Any]:
    """The query for what monitors read of answers; its rows are for `seen_answer`."""
    if not with_shadows:
        return select(*_ANSWER)
    columns = select(*_ANSWER, *SHADOW_COLUMNS)
    return columns.outerjoin(ShadowRow, ShadowRow.id == AnswerRow.id)


def seen_answer(row: Any) -> SeenAnswer:
    """A row of `answers_for`."""
    answer, run = row[: len(_ANSWER)], row[len(_ANSWER) :]
    return replace(SeenAnswer(*answer), shadow=seen_shadow(run))


def seen_shadow(run: Sequence[Any]) -> SeenShadow | None:
    """The values of `SHADOW_COLUMNS`; None where no run could be drawn, or none are read."""
    return SeenShadow(*run) if run and run[0] is not None else None


def seen_row(row: AnswerRow, shadow: SeenShadow | None) -> SeenAnswer:
    """A whole row, as monitors read it."""
    return SeenAnswer(**{name: getattr(row, name) for name in _NAMES}, shadow=shadow)
