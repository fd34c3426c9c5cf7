"""What is wrong with a database, in words: a table from its errors to causes and remedies."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
)

from rlcm_serve.errors import DatabaseBusy, DatabaseRefused, StorageFull

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause, for callers and operators, and the operator's remedy."""

    kind: type[DatabaseRefused]
    cause: str
    remedy: str


UNREACHABLE = Fault(
    DatabaseRefused,
    "the database cannot be reached; see the service's log",
    "check its address, that its server runs, and that this user may create tables there",
)
BUSY = Fault(
    DatabaseBusy,
    "another process is writing to the database and did not finish in time; nothing was stored, "
    "so send the request again",
    "end the process that keeps the database locked, or increase database_wait_s",
)
FULL = Fault(
    StorageFull,
    "no space is left on the disk; nothing was stored",
    "free some space; the service needs no restart",
)
READ_ONLY = Fault(
    DatabaseRefused,
    "the database cannot be written",
    "make the file and its folder writable for the user of the service",
)
UNREADABLE = Fault(
    DatabaseRefused,
    "the disk failed while the database was read or written",
    "check the disk and the system's log, then `rlcm store check`",
)
DAMAGED = Fault(
    DatabaseRefused,
    "the database file is damaged",
    "stop the service, look with `rlcm store check`, then put a backup in its place with "
    "`rlcm store restore FILE`",
)
MISSING = Fault(
    DatabaseRefused,
    "the database file was removed while the service was running",
    "stop the service and put the file back, or a backup with `rlcm store restore FILE`",
)
REPLACED = Fault(
    DatabaseRefused,
    "the database file was replaced while the service was running",
    "restart the service to use the new file",
)
_OF_SQLITE = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_PERM: READ_ONLY,
    sqlite3.SQLITE_IOERR: UNREADABLE,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}
_OF_POSTGRES = {
    "55P03": BUSY,  # lock not available
    "40P01": BUSY,  # deadlock
    "40001": BUSY,  # serialization failure
    "53100": FULL,
    "25006": READ_ONLY,
    "XX001": DAMAGED,
}
"""By SQLSTATE."""
_FAILURES = (OperationalError, InterfaceError, InternalError)


def concerns_database(error: DBAPIError) -> bool:
    """Whether the database failed, and not the statement."""
    # SQLite reports a damaged file as a plain DatabaseError.
    return isinstance(error, _FAILURES) or type(error) is DatabaseError


def fault_of(error: object) -> Fault:
    """The cause of a driver's error."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _OF_SQLITE.get(code & 0xFF, UNREACHABLE)  # the rest of an extended code is detail
    return _OF_POSTGRES.get(getattr(error, "sqlstate", None) or "", UNREACHABLE)


@contextmanager
def storing() -> Iterator[None]:
    """Turns a full disk into `StorageFull`, where something is written to a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StorageFull(f"{FULL.cause} ({error}): {FULL.remedy}", FULL.cause) from error
        raise
