"""The base class of all tables, and their partial indexes."""

from __future__ import annotations

from sqlalchemy import Index, text
from sqlalchemy.orm import DeclarativeBase


class Base(DeclarativeBase):
    """Collects every table in its `metadata`."""


def partial_index(name: str, where: str, *columns: str) -> Index:
    """An index of the rows for which a condition holds."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))
