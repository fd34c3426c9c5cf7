"""What new tables hold of the rows that were there before them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, insert, literal, select

from rlcm_serve.store.answers.table import AnswerRow, LabelCountsRow
from rlcm_serve.store.shadows.table import ShadowCountsRow, ShadowRow


def count_labels(connection: Connection) -> None:
    """Fills the counts of labels from the answers that are stored.

    No deadline counts as passed yet: whoever reads the counts adds those that have.
    """
    row = AnswerRow
    right = func.coalesce(row.right, row.reported)
    enters = row.audited & row.right.is_not(None)
    others = ~enters
    level = func.coalesce(row.certificate, ""), func.coalesce(row.alpha, 0.0)
    count = func.count()
    counts: dict[str, Any] = {
        "certificate": level[0],
        "alpha": level[1],
        "audited": count.filter(row.audited & row.answered),
        "right": count.filter(enters & row.right),
        "wrong": count.filter(enters & ~row.right),
        "late": count.filter(row.audited & (row.labelled > row.due)),
        "others_right": count.filter(others & right),
        "others_wrong": count.filter(others & ~right),
        "overdue": literal(0),
        "overdue_at": literal(0.0),
    }
    rows = select(*(value.label(name) for name, value in counts.items())).group_by(*level)
    connection.execute(insert(LabelCountsRow).from_select([*counts], rows))


def count_shadow_runs(connection: Connection) -> None:
    """Fills the counts of shadow runs from those that are stored."""
    row, count = ShadowRow, func.count()
    has_place = row.share > 0
    counts: dict[str, Any] = {
        "certificate": row.certificate,
        "alpha": row.alpha,
        "drawn": count,
        "dropped": count.filter(~has_place),
        "missing": count.filter(has_place & row.ended.is_not(None) & row.disagrees.is_(None)),
        "agree": count.filter(has_place & row.disagrees.is_(False)),
        "disagree": count.filter(has_place & row.disagrees.is_(True)),
    }
    rows = select(*(value.label(name) for name, value in counts.items())).where(row.drawn)
    rows = rows.group_by(row.certificate, row.alpha)
    connection.execute(insert(ShadowCountsRow).from_select([*counts], rows))
