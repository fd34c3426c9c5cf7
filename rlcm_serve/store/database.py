"""The database connection, with the settings that this service needs, and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store import calibration_tables, certificate_table, key_table
from rlcm_serve.store.base import Base

SCHEMA_VERSION = 1
"""Increased whenever a table changes; tables of another version are refused, never altered.

A new table does not change the version: it is created beside the others, and older releases
ignore it.
"""
BUSY_TIMEOUT = 30.0
"""Seconds that a writer waits for another."""
_TABLES = (calibration_tables, certificate_table, key_table)
"""Their import puts every table into `Base.metadata`."""
_CREATION_LOCK = 0x726C636D
"""Advisory lock in PostgreSQL for processes that start at the same time ("rlcm")."""
_PRAGMAS = (
    "journal_mode = WAL",  # readers do not wait for a writer; a kill loses no commit
    "synchronous = FULL",
    f"busy_timeout = {BUSY_TIMEOUT * 1000:.0f}",
    "foreign_keys = ON",
)


class SchemaVersion(Base):
    """A single row with the version of the tables."""

    __tablename__ = "rlcm_schema"

    version: Mapped[int] = mapped_column(primary_key=True)


class Database:
    """Opens the database at a URL, and creates missing tables. May be used from any thread.

    Args:
        url: `sqlite:///FILE`, whose folder is created, or `postgresql://...`.

    Raises:
        DatabaseRefused: the URL is of another kind, or cannot be opened, or the tables have
            another version.
    """

    def __init__(self, url: str) -> None:
        self.url = _parse(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            self._make_folder()
        self._engine = _open_sqlite(self.url) if self.is_sqlite else _open_postgres(self.url)
        self._closed = False
        event.listen(self._engine, "checkin", self._checked_in)
        self._reading = self._engine.execution_options(rlcm_reads_only=True)
        try:
            self._create()
        except DBAPIError as error:
            self.close()
            raise self._unusable(error.orig) from error
        except DatabaseRefused:
            self.close()
            raise

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction that may write: committed at the end, rolled back after an exception.

        Keep it short: in SQLite it is the only writer from its first statement on. Loaded objects
        stay readable afterwards.

        Raises:
            DatabaseRefused: the database cannot be reached, is full, or was busy for too long.
        """
        with self._transaction(self._engine) as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads; it neither waits for writers nor delays them."""
        with self._transaction(self._reading) as session:
            yield session

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Session]:
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except (OperationalError, InterfaceError) as error:  # the database fails, not the statement
            raise self._unusable(error.orig) from error

    def close(self) -> None:
        """Closes every connection; one that a thread still uses, at the end of its transaction."""
        self._closed = True
        self._engine.dispose()

    def _checked_in(self, connection: Any, record: ConnectionPoolEntry) -> None:
        if self._closed:  # no later dispose would close it
            record.close()

    def _make_folder(self) -> None:
        try:
            folder = Path(str(self.url.database)).parent
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, why: object) -> DatabaseRefused:
        return DatabaseRefused(
            f"the database {self} cannot be used: {str(why).strip()}; check its address, and that "
            "this user may create tables there"
        )

    def _create(self) -> None:
        with self._engine.begin() as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})"))
            Base.metadata.create_all(connection, [_table(SchemaVersion)])
            self._check_version(connection)
            Base.metadata.create_all(connection)

    def _check_version(self, connection: Connection) -> None:
        stored = connection.scalars(select(SchemaVersion.version)).all()
        if not stored:
            connection.execute(_table(SchemaVersion).insert().values(version=SCHEMA_VERSION))
        elif stored != [SCHEMA_VERSION]:
            raise DatabaseRefused(
                f"the database {self} has tables of version {max(stored)}, and this rlcm-serve "
                f"knows version {SCHEMA_VERSION}: use the rlcm-serve that created it, or another "
                "database"
            )


def _table(mapped: type[Base]) -> Any:
    return mapped.__table__


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        raise DatabaseRefused(f"the database URL cannot be read: {error}") from error
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise DatabaseRefused(
            f"the database is {backend!r}: give sqlite:///FILE or postgresql://USER@HOST/NAME"
        )
    if parsed.database in (None, "", ":memory:"):
        raise DatabaseRefused("a database in memory is lost with the process: give sqlite:///FILE")
    return parsed


def _open_sqlite(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that starts to write after reading may fail instead of waiting.
        reads = connection.get_execution_options().get("rlcm_reads_only", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _open_postgres(url: URL) -> Engine:
    # A connection that the server has closed is replaced before use.
    return create_engine(url, pool_pre_ping=True)
