"""The draw for audit of a database."""

from __future__ import annotations

from collections.abc import Mapping

from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.store.database import Database
from rlcm_serve.store.shared_secret import shared_secret


def draw_of(database: Database, shares: AuditShares) -> AuditDraw:
    """The draw that all processes of a database share, with these shares.

    Raises:
        DatabaseRefused: the database cannot be used.
    """
    return AuditDraw(shared_secret(database, "monitoring"), shares)


def drawn_at(database: Database, share_of: Mapping[str, float], share: float) -> set[str]:
    """Of answers that were drawn for audit, those that would have been at a smaller share too.

    At the smallest share of all questions, answers that were drawn at different ones are a fair
    sample again: the same hash chose them.

    Args:
        database: whose draw it is.
        share_of: by id, the share at which each answer was drawn.
        share: the smaller one.

    Raises:
        DatabaseRefused: the database cannot be used.
    """
    draw = draw_of(database, AuditShares(share))
    return {id_ for id_, own in share_of.items() if own <= share or draw.draws(id_, share)}
