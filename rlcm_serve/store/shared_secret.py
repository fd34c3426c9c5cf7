"""Secrets that the processes of one database share."""

from __future__ import annotations

import secrets

from sqlalchemy import select

from rlcm_serve.store.database import Database
from rlcm_serve.store.unanswered.table import SecretRow


def shared_secret(database: Database, name: str) -> bytes:
    """The secret of this name, 32 random bytes; the first process that asks for it makes it.

    Raises:
        DatabaseRefused: the database cannot be used.
    """
    stored = select(SecretRow.secret).where(SecretRow.name == name)
    with database.reading() as session:
        known = session.scalar(stored)
    if known is not None:
        return known
    row = {"name": name, "secret": secrets.token_bytes(32)}
    with database.session() as session:  # another process may have made it in the meantime
        session.execute(database.insert(SecretRow).on_conflict_do_nothing(), row)
        return session.scalars(stored).one()
