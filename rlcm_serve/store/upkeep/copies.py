"""Backups of a SQLite database, and their return."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from calibration.files import flush
from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.upkeep.check import check_file, read_only

_BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database."""
_PAGES = 1000
"""Pages copied at a time; in between the copy can be interrupted."""


def back_up(source: Path, target: Path) -> None:
    """Copies a database, also while a service uses it, as it is at one moment.

    Raises:
        DatabaseRefused: the source cannot be read, or the copy has faults.
        FileExistsError: there is something at the target.
    """
    if target.exists():
        raise FileExistsError(f"{target} exists: give another name, or remove it")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _copy(source, target)


def restore(backup: Path, target: Path) -> Path | None:
    """Puts a backup in a database's place, in one step. No service may use the database.

    Returns:
        Where the database that was there is kept; None if there was none.

    Raises:
        DatabaseRefused: the backup has faults, or a process uses the database; nothing changes.
        FileExistsError: an earlier database is kept under the same time; the database stays.
    """
    _require_faultless(backup)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_unused(target)
    arriving = target.with_name(f"{target.name}.arriving")
    arriving.unlink(missing_ok=True)
    _copy(backup, arriving)
    kept = _set_aside(target)
    arriving.replace(target)
    flush(target.parent)
    return kept


def _copy(source: Path, target: Path) -> None:
    target.touch(mode=0o600)
    try:
        with read_only(source) as reading, closing(sqlite3.connect(target)) as writing:
            _stay_at_this_moment(reading)
            reading.backup(writing, pages=_PAGES, sleep=0.01)
            writing.execute("PRAGMA journal_mode = DELETE")  # a single file, without a log
        flush(target)
        _require_faultless(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _stay_at_this_moment(connection: sqlite3.Connection) -> None:
    """Begins a transaction: without one, each commit of a service starts the copy again."""
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master")


def _require_faultless(file: Path) -> None:
    if faults := check_file(file).faults:
        raise DatabaseRefused(f"{file} cannot be used: {'; '.join(faults)}: take another backup")


def _require_unused(target: Path) -> None:
    """Returns if no process has the database open; its log is then merged into the file.

    A damaged file cannot be asked. A service that runs on it notices that it is replaced.
    """
    if not target.exists():
        return
    with closing(sqlite3.connect(target, timeout=0)) as connection:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.OperationalError as error:
            raise DatabaseRefused(
                f"the database {target} is in use ({error}): stop the service first"
            ) from error
        except sqlite3.DatabaseError:
            return
    if mode != "delete":
        raise DatabaseRefused(f"the database {target} is in use: stop the service first")


def _set_aside(target: Path) -> Path | None:
    """Keeps a database under another name, too, and the files beside it under that one alone.

    These must not meet another database. The database itself is replaced in one step, so that a
    kill leaves the old one or the new one: a service would begin with an empty one.
    """
    if not target.exists():
        for ending in _BESIDE:
            target.with_name(target.name + ending).unlink(missing_ok=True)
        return None
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    kept = target.with_name(f"{target.name}.replaced-{moment}")
    try:
        kept.hardlink_to(target)
    except FileExistsError:  # a rename would replace it
        raise
    except OSError:  # not every file system has links
        target.rename(kept)
    for ending in _BESIDE:
        beside = target.with_name(target.name + ending)
        if beside.exists():
            beside.rename(kept.with_name(kept.name + ending))
    return kept
