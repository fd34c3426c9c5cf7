"""Checks a stored database: its pages, its version, its references, and how much is in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import StaticPool, create_engine

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.base import Base
from rlcm_serve.store.schema.upgrade import obstacles
from rlcm_serve.store.schema.version import FIRST_TABLES, SCHEMA_VERSION, SchemaVersion

_MOST = 10
"""Faults that are listed; a damaged file may have thousands."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is in a database, and what is wrong with it; without faults it can be used.

    Attributes:
        version: of the tables; None if it cannot be read.
        rows: number of rows by table.
        faults: one sentence each.
    """

    version: int | None
    rows: dict[str, int]
    faults: list[str]


def require_file(file: Path) -> None:
    """Returns if there is a database file.

    Raises:
        DatabaseRefused: there is none.
    """
    if not file.is_file():
        raise DatabaseRefused(f"there is no database file {file}: check the path")


@contextmanager
def read_only(file: Path, timeout: float = 5.0) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing.

    Raises:
        DatabaseRefused: there is no such file, or it cannot be opened.
    """
    require_file(file)
    uri = f"{file.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=timeout)) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        raise DatabaseRefused(
            f"the database {file} cannot be opened: {error}; check that this user may read it and "
            "its folder"
        ) from error


def check_file(file: Path) -> Findings:
    """What a SQLite file holds, and its faults. It may be in use.

    Raises:
        DatabaseRefused: there is no such file, or it cannot be opened.
    """
    with read_only(file) as connection:
        try:
            faults = [*_damage(connection), *_missing(connection)]
            return Findings(_version(connection), _rows(connection), faults or _odd(connection))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            return Findings(None, {}, [f"the file is damaged or no database: {error}"])


def _damage(connection: sqlite3.Connection) -> list[str]:
    found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_MOST})")]
    return [] if found == ["ok"] else [f"damaged: {line}" for line in found]


def _missing(connection: sqlite3.Connection) -> list[str]:
    """Faults of the tables. What later releases brought is added when a service opens the file."""
    if lost := FIRST_TABLES - _tables(connection):
        return [f"the table {name} is missing" for name in sorted(lost)]
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as opened:
        return [f"{clause}: a development version made it" for clause in obstacles(opened)]


def _odd(connection: sqlite3.Connection) -> list[str]:
    """Faults of the content, where all tables are there."""
    faults = []
    version = _version(connection)
    if version != SCHEMA_VERSION:
        faults.append(
            f"the tables have version {version}, and this rlcm-serve knows version {SCHEMA_VERSION}"
        )
    for row in connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST):
        faults.append(f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is missing")
    return faults


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }


def _version(connection: sqlite3.Connection) -> int | None:
    name = SchemaVersion.__tablename__
    if name not in _tables(connection):
        return None
    found = connection.execute(f"SELECT max(version) FROM {name}").fetchone()[0]
    return None if found is None else int(found)


def _rows(connection: sqlite3.Connection) -> dict[str, int]:
    there = _tables(connection)
    return {
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for name in Base.metadata.tables
        if name in there
    }
