"""What all tables have: their base class, growing numbers as keys, and partial indexes."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, text
from sqlalchemy.orm import DeclarativeBase

Number = BigInteger().with_variant(Integer, "sqlite")
"""Type of a key that grows by itself: SQLite increments INTEGER keys only."""


class Base(DeclarativeBase):
    """Collects every table in its `metadata`."""


def partial_index(name: str, where: str, *columns: str) -> Index:
    """An index of the rows for which a condition holds."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))
