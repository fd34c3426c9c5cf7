"""The draw for audit of a database."""

from __future__ import annotations

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
