"""`rlcm store`: checks, backups and their return."""

import json
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import text

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.caller import Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from rlcm_serve.store.upkeep import copies
from rlcm_serve.store.upkeep.check import check_file
from rlcm_serve.store.upkeep.copies import back_up, restore
from tests.rlcm_serve.command_line import Rlcm


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one key, which nobody uses."""
    file = tmp_path / "state" / "rlcm.db"
    with closing(Database(f"sqlite:///{file}")) as database:
        Keys(database).create("first", [Scope.SOLVE])
    return file


@pytest.fixture
def in_use(file: Path) -> Iterator[Database]:
    """The database as a service uses it: opened, with a log beside it."""
    with closing(Database(f"sqlite:///{file}")) as database:
        Keys(database).create("second", [Scope.SOLVE])
        yield database


def names(file: Path) -> list[str]:
    with closing(Database(f"sqlite:///{file}")) as database:
        return [key.name for key in Keys(database).all()]


def damage(file: Path) -> None:
    """Overwrites everything after the first page."""
    content = bytearray(file.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    file.write_bytes(bytes(content))


def test_a_backup_is_whole_while_the_database_is_in_use(in_use: Database, tmp_path: Path) -> None:
    source = Path(str(in_use.url.database))
    with in_use.session() as writing:
        writing.execute(text("DELETE FROM rlcm_keys"))  # not committed
        back_up(source, tmp_path / "copy.db")
        writing.rollback()
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert check_file(tmp_path / "copy.db").rows["rlcm_keys"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "state"]
    with pytest.raises(FileExistsError, match="give another name"):
        back_up(source, tmp_path / "copy.db")


@contextmanager
def committing(file: Path, most: float) -> Iterator[threading.Thread]:
    """A thread that commits without a pause until the end, or for so many seconds."""
    began, ended = threading.Event(), threading.Event()

    def commit() -> None:
        until = time.monotonic() + most
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            while not ended.is_set() and time.monotonic() < until:
                connection.execute("INSERT INTO filling VALUES (x'00')")
                began.set()

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        assert began.wait(most)
        yield thread
    finally:
        ended.set()
        thread.join()


def test_a_backup_ends_while_a_service_commits(
    in_use: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcm_serve.store.upkeep.copies._PAGES", 10)
    source = Path(str(in_use.url.database))
    alter(source, "CREATE TABLE filling (content BLOB)")
    alter(source, "INSERT INTO filling VALUES (zeroblob(8000000))")
    with committing(source, most=20) as writer:
        back_up(source, tmp_path / "copy.db")
        assert writer.is_alive(), "the backup ended only after the last commit"
    assert check_file(tmp_path / "copy.db").faults == []


def test_a_backup_comes_back_and_the_old_file_is_kept(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "new" / "folder" / "copy.db"
    back_up(file, copy)
    with closing(Database(f"sqlite:///{file}")) as database:
        Keys(database).create("second", [Scope.SOLVE])
    kept = restore(copy, file)
    assert names(file) == ["first"]
    assert kept is not None
    assert names(kept) == ["first", "second"]
    file.unlink()
    assert restore(copy, file) is None
    assert names(file) == ["first"]


def test_restores_in_one_second_keep_every_database(file: Path, tmp_path: Path) -> None:
    back_up(file, tmp_path / "copy.db")
    with closing(Database(f"sqlite:///{file}")) as database:
        Keys(database).create("second", [Scope.SOLVE])
    first, second = restore(tmp_path / "copy.db", file), restore(tmp_path / "copy.db", file)
    assert first is not None
    assert second is not None
    assert (names(first), names(second)) == (["first", "second"], ["first"])


def test_a_database_that_is_kept_is_never_replaced(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StandingClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls(2026, 11, 30, tzinfo=tz)

    monkeypatch.setattr(copies, "datetime", StandingClock)
    back_up(file, tmp_path / "copy.db")
    kept = restore(tmp_path / "copy.db", file)
    assert kept is not None
    inode = kept.stat().st_ino
    with pytest.raises(FileExistsError):
        restore(tmp_path / "copy.db", file)
    assert (kept.stat().st_ino, names(file)) == (inode, ["first"])


def test_a_restore_that_is_killed_leaves_the_old_database(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service would begin with an empty one: without keys, and without withdrawals."""
    back_up(file, tmp_path / "copy.db")
    set_aside = copies._set_aside

    def killed(target: Path) -> Path | None:
        set_aside(target)
        raise KeyboardInterrupt

    monkeypatch.setattr(copies, "_set_aside", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(tmp_path / "copy.db", file)
    assert names(file) == ["first"]


def test_nothing_is_restored_under_a_running_service(in_use: Database, tmp_path: Path) -> None:
    file = Path(str(in_use.url.database))
    back_up(file, tmp_path / "copy.db")
    before = file.stat().st_ino
    with pytest.raises(DatabaseRefused, match=r"is in use.*stop the service first"):
        restore(tmp_path / "copy.db", file)
    assert file.stat().st_ino == before
    Keys(in_use).create("third", [Scope.SOLVE])


def test_a_damaged_database_is_replaced_with_the_files_beside_it(
    file: Path, tmp_path: Path
) -> None:
    back_up(file, tmp_path / "copy.db")
    file.write_bytes(b"nothing of a database" * 1000)
    file.with_name("rlcm.db-wal").write_bytes(b"the log of another database")
    restore(tmp_path / "copy.db", file)
    assert names(file) == ["first"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (damage, "damaged"),
        (lambda file: file.write_text("no database at all, whatever its name says"), "damaged"),
        (lambda file: alter(file, "UPDATE rlcm_schema SET version = 9"), "version 9.*knows"),
        (lambda file: alter(file, "DROP TABLE rlcm_keys"), "the table rlcm_keys is missing"),
        (
            lambda file: alter(file, "INSERT INTO rlcm_calibration_traces VALUES (7, x'00')"),
            "row 7 of rlcm_calibration_traces refers to a row of rlcm_calibrations",
        ),
        (lambda file: file.unlink(), "there is no database file"),
    ],
)
def test_what_is_wrong_is_named_and_never_restored(
    file: Path, tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoilt = tmp_path / "copy.db"
    back_up(file, spoilt)
    spoil(spoilt)
    with pytest.raises(DatabaseRefused, match=why):
        restore(spoilt, file)
    assert names(file) == ["first"]
    assert sorted(path.name for path in file.parent.iterdir()) == ["rlcm.db"]


def alter(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement)
        connection.commit()


class TestCommands:
    def test_check_backup_and_restore(self, rlcm: Rlcm, file: Path) -> None:
        state = f"--state {file.parent}"
        status, out, _ = rlcm(f"store check --json {state}")
        found = json.loads(out)
        assert (found["version"], found["rows"]["rlcm_keys"], found["faults"]) == (1, 1, [])
        assert (status, rlcm(f"store backup copy.db {state}")) == (0, (0, "wrote copy.db\n", ""))
        damage(file)
        status, out, _ = rlcm(f"store check {state}")
        assert status == 1
        assert "damaged" in out
        assert "is kept as" in rlcm(f"store restore copy.db {state}")[1]
        status, out, _ = rlcm(f"store check {state}")
        assert status == 0
        assert "no faults" in out

    def test_postgresql_has_its_own_tools(self, rlcm: Rlcm) -> None:
        status, _, error = rlcm("store backup x --database postgresql://u@h/d")
        assert status == 1
        assert "use pg_dump" in error
