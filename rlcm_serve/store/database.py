"""The database connection, with the settings that this service needs, and its tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.base import Base
from rlcm_serve.store.connection.engines import (
    READS_ONLY,
    FileIdentity,
    open_postgres,
    open_sqlite,
    parse_url,
)
from rlcm_serve.store.connection.faults import (
    DAMAGED,
    UNREACHABLE,
    Fault,
    concerns_database,
    fault_of,
)
from rlcm_serve.store.connection.health import DatabaseHealth
from rlcm_serve.store.connection.threads import StoreThreads
from rlcm_serve.store.schema.upgrade import bring_up_to_date, is_up_to_date, obstacles
from rlcm_serve.store.schema.version import SCHEMA_VERSION, SchemaVersion

WAIT = 5.0
"""Longest wait in seconds of a write for another process that writes, unless settings say more."""
_WRITERS = 4
"""Threads that write to PostgreSQL. SQLite has one writer at a time, so one thread writes to it."""
_NOW = text("SELECT extract(epoch FROM clock_timestamp())")
_VERSIONS: Any = SchemaVersion.__table__
_CREATION_LOCK = 0x726C636D
"""Advisory lock in PostgreSQL for processes that start at the same time ("rlcm")."""


class Database:
    """Opens the database at a URL, and creates missing tables. May be used from any thread.

    Coroutines use it through `threads`.

    Args:
        url: `sqlite:///FILE`, whose folder is created, or `postgresql://...`.
        wait: longest wait in seconds of a write for others that write.

    Raises:
        DatabaseRefused: the URL is of another kind, or cannot be opened, or the tables have
            another version.
    """

    def __init__(self, url: str, wait: float = WAIT) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            self._make_file()
        self._engine = (open_sqlite if self.is_sqlite else open_postgres)(self.url, wait)
        self._identity: FileIdentity | None = None
        self._damage: DatabaseRefused | None = None
        self._closed = False
        event.listen(self._engine, "checkin", self._checked_in)
        self._reading = self._engine.execution_options(**{READS_ONLY: True})
        self.threads = StoreThreads(1 if self.is_sqlite else _WRITERS, wait)
        self.health = DatabaseHealth(self._check, self.threads)
        try:
            self._create()
        except DBAPIError as error:
            self.close()
            raise self._unusable(fault_of(error.orig), error.orig) from error
        except DatabaseRefused:
            self.close()
            raise
        if self.is_sqlite:
            self._identity = FileIdentity(Path(str(self.url.database)))

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction that may write: committed at the end, rolled back after an exception.

        Keep it short: in SQLite it is the only writer from its first statement on. Loaded objects
        stay readable afterwards.

        Raises:
            DatabaseRefused: the database cannot be reached, is damaged, or was removed or replaced.
            DatabaseBusy: another process did not stop writing in time.
            StorageFull: the disk is full.
        """
        with self._transaction(self._engine) as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads; it neither waits for writers nor delays them."""
        with self._transaction(self._reading) as session:
            yield session

    def now(self, session: Session) -> float:
        """Seconds since 1970: PostgreSQL's own clock, because hosts may disagree."""
        if self.is_sqlite:  # all processes are on one host
            return time.time()
        return float(session.scalar(_NOW) or 0)

    def insert(self, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
        """An INSERT that can say what to do with a row that is there already."""
        return (sqlite.insert if self.is_sqlite else postgresql.insert)(table)

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Session]:
        if gone := self._gone():
            raise self._unusable(gone)
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except DBAPIError as error:
            if not concerns_database(error):
                raise
            if gone := self._gone():  # in the meantime
                raise self._unusable(gone) from error
            refused = self._unusable(fault_of(error.orig), error.orig)
            if fault_of(error.orig) is DAMAGED:
                self._damage = refused
            raise refused from error

    def _gone(self) -> Fault | None:
        return None if self._identity is None else self._identity.fault()

    def _check(self) -> None:
        with self.reading() as session:
            session.scalars(select(SchemaVersion.version)).all()
        if self._damage is not None:  # a damaged page, which other reads may not meet
            raise self._damage

    def close(self) -> None:
        """Closes every connection; one that a thread still uses, at the end of its transaction."""
        self._closed = True
        self.threads.close()
        self._engine.dispose()

    def _checked_in(self, connection: Any, record: ConnectionPoolEntry) -> None:
        if self._closed:  # no later dispose would close it
            record.close()

    def _make_file(self) -> None:
        file = Path(str(self.url.database))
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not file.exists():
                file.touch(mode=0o600)  # SQLite's files beside it get the same
        except OSError as error:
            raise self._unusable(UNREACHABLE, error) from error

    def _unusable(self, fault: Fault, why: object = None) -> DatabaseRefused:
        said = fault.cause if why is None else str(why).strip()
        message = f"the database {self} cannot be used: {said}; {fault.remedy}"
        return fault.kind(message, fault.cause)

    def _create(self) -> None:
        """Creates what is missing; where nothing is, it does not wait for a writer."""
        with self._reading.begin() as connection:
            if self._stored_version(connection) is not None and is_up_to_date(connection):
                return
        with self._engine.begin() as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})"))
            if self._stored_version(connection) is None:
                Base.metadata.create_all(connection, [_VERSIONS])
                connection.execute(_VERSIONS.insert().values(version=SCHEMA_VERSION))
            if faults := obstacles(connection):
                raise DatabaseRefused(
                    f"the database {self} has tables of version {SCHEMA_VERSION} that cannot be "
                    f"brought up to date ({'; '.join(faults)}), because a development version "
                    "between two releases made them: use that version, or another database"
                )
            bring_up_to_date(connection)

    def _stored_version(self, connection: Connection) -> int | None:
        if not inspect(connection).has_table(_VERSIONS.name):
            return None
        stored = connection.scalars(select(SchemaVersion.version)).all()
        if stored and stored != [SCHEMA_VERSION]:
            raise DatabaseRefused(
                f"the database {self} has tables of version {max(stored)}, and this rlcm-serve "
                f"knows version {SCHEMA_VERSION}: use the rlcm-serve that created it, or another "
                "database"
            )
        return SCHEMA_VERSION if stored else None
