"""SQLAlchemy's engines for SQLite and PostgreSQL, with the settings that this service needs."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.connection.faults import BUSY, MISSING, REPLACED, Fault, fault_of

READS_ONLY = "rlcm_reads_only"
"""Execution option of transactions that only read."""
LOOK_WITHIN = 0.01
"""Most seconds between two looks whether another process still writes to SQLite."""
POOL_SIZE = 16
"""Most connections; more than there are threads that use one."""
SILENT_FOR = 5
"""Seconds after which a PostgreSQL server that does not answer counts as out of reach."""
FROZEN_AFTER = 30.0
"""Seconds between two statements after which a process that writes to PostgreSQL counts as frozen.

The server then ends its transaction, for which others may wait. A working process computes for
seconds at most between two statements, where it has many certificates to read.
"""
_LIMITS = text(
    "SELECT set_config('lock_timeout', :wait, true), "
    "set_config('idle_in_transaction_session_timeout', :frozen, true)"
)
"""Of this transaction alone."""


def parse_url(url: str) -> URL:
    """The address of a database.

    Raises:
        DatabaseRefused: it is neither a SQLite file nor PostgreSQL.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        raise DatabaseRefused(
            f"the database URL cannot be read ({error}): give sqlite:///FILE or "
            "postgresql://USER@HOST/NAME"
        ) from error
    except ValueError as error:  # the port
        raise DatabaseRefused(
            "the port of the database URL is not a number: give postgresql://USER@HOST:5432/NAME, "
            "with %3A and %2F for : and / in a password"
        ) from error
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise DatabaseRefused(
            f"the database is {backend!r}: give sqlite:///FILE or postgresql://USER@HOST/NAME"
        )
    if parsed.database in (None, "", ":memory:"):
        raise DatabaseRefused("a database in memory is lost with the process: give sqlite:///FILE")
    return parsed


def open_sqlite(url: URL, wait: float) -> Engine:
    """An engine for a SQLite file that exists; writers wait at most `wait` seconds for another.

    A connection creates no file: in place of one that was removed, it would be empty.
    """
    pragmas = (
        f"busy_timeout = {wait * 1000:.0f}",
        "journal_mode = WAL",  # readers do not wait for a writer; a kill loses no commit
        "synchronous = FULL",
        "foreign_keys = ON",
    )
    file = Path(str(url.database)).absolute().as_uri()
    engine = create_engine(
        url.set(database=file).update_query_dict({"mode": "rw", "uri": "true"}),
        pool_size=POOL_SIZE,
        connect_args={"timeout": wait, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that starts to write after reading may fail instead of waiting.
        if connection.get_execution_options().get(READS_ONLY, False):
            connection.exec_driver_sql("BEGIN")
        else:
            _begin_to_write(connection, wait)

    return engine


def _begin_to_write(connection: Connection, wait: float) -> None:
    """Begins once no other process writes.

    SQLite itself looks more rarely the longer it waits, up to every 100 ms. So whoever comes last
    goes first, and among several eager processes one may wait in vain. Here it is the other way.

    Raises:
        OperationalError: another process did not end within `wait` seconds.
    """
    driver: Any = connection.connection.dbapi_connection
    began = time.monotonic()
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while (left := wait - (time.monotonic() - began)) > 0:
            try:
                driver.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if fault_of(error) is not BUSY:
                    break
            time.sleep(random.uniform(0, LOOK_WITHIN * left / wait))
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # raises what SQLAlchemy makes of it
    finally:
        driver.execute(f"PRAGMA busy_timeout = {wait * 1000:.0f}")


def open_postgres(url: URL, wait: float) -> Engine:
    """An engine for PostgreSQL, whose writers wait at most `wait` seconds for a lock.

    A writer that freezes, or loses its host, keeps its locks for at most `FROZEN_AFTER` seconds.

    Raises:
        DatabaseRefused: the driver is not installed.
    """
    try:
        # A connection that the server has closed is replaced before use.
        engine = create_engine(
            url, pool_size=POOL_SIZE, pool_pre_ping=True, connect_args=_give_up(url)
        )
    except ImportError as error:
        raise DatabaseRefused(
            f"the driver for PostgreSQL cannot be loaded ({error}): "
            "run `pip install '.[postgres]'` in the checkout"
        ) from error

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(READS_ONLY, False):
            connection.execute(_LIMITS, {"wait": _ms(wait), "frozen": _ms(FROZEN_AFTER)})

    return engine


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"


def _give_up(url: URL) -> dict[str, int]:
    """Arguments of a connection that make it fail where the server has fallen silent.

    By default, the operating system would wait a quarter of an hour. What the URL says comes first.
    """
    silent = {
        "connect_timeout": SILENT_FOR,
        "tcp_user_timeout": 1000 * SILENT_FOR,  # milliseconds
        "keepalives_idle": SILENT_FOR,
        "keepalives_interval": SILENT_FOR,
    }
    return {name: value for name, value in silent.items() if name not in url.query}


class FileIdentity:
    """Notices that a SQLite file was removed or replaced while it was in use.

    Its connections would keep using the old file, which nobody finds again after a restart.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found = self._now()

    def fault(self) -> Fault | None:
        """What has happened to the file; None if nothing has."""
        now = self._now()
        if now == self._found:
            return None
        return MISSING if now is None else REPLACED

    def _now(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino
