"""Which fault an error of the database is, and what callers and operators are told."""

import errno
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import text

from rlcm_serve.errors import DatabaseBusy, DatabaseRefused, StorageFull
from rlcm_serve.store.connection import faults
from rlcm_serve.store.connection.faults import Fault, fault_of, storing
from rlcm_serve.store.database import Database
from tests.rlcm_serve.postgres import PostgresServer


def error_of(file: Path, *statements: str, read_only: bool = False) -> sqlite3.Error:
    mode = "ro" if read_only else "rw"
    uri = f"{file.as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)) as connection:
        try:
            for statement in statements:
                connection.execute(statement)
        except sqlite3.Error as error:
            return error
    raise AssertionError(f"{statements} failed nowhere")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    Database(f"sqlite:///{tmp_path}/rlcm.db").close()
    return tmp_path / "rlcm.db"


WRITE = "UPDATE rlcm_schema SET version = 1"
FILL = (
    "PRAGMA max_page_count = 1",
    "INSERT INTO rlcm_calibration_traces VALUES (1, zeroblob(1000000))",
)


def test_each_fault_of_a_file_has_its_name(file: Path) -> None:
    assert fault_of(error_of(file, WRITE, read_only=True)) is faults.READ_ONLY
    assert fault_of(error_of(file, *FILL)) is faults.FULL
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert fault_of(error_of(file, WRITE)) is faults.BUSY
    file.write_bytes(b"no database" * 1000)
    assert fault_of(error_of(file, WRITE)) is faults.DAMAGED


def test_two_writers_of_postgres_that_wait_for_each_other_are_busy(
    postgres: PostgresServer,
) -> None:
    with closing(Database(postgres.new_database())) as database:
        with database.session() as session:
            session.execute(text("CREATE TABLE pair AS SELECT generate_series(1, 2) AS n"))
        both, outcomes = threading.Barrier(2), list[DatabaseRefused]()

        def lock(*rows: int) -> None:
            try:
                with database.session() as session:
                    session.execute(text(f"SELECT 1 FROM pair WHERE n = {rows[0]} FOR UPDATE"))
                    both.wait()
                    session.execute(text(f"SELECT 1 FROM pair WHERE n = {rows[1]} FOR UPDATE"))
            except DatabaseRefused as error:
                outcomes.append(error)

        threads = [threading.Thread(target=lock, args=rows) for rows in ((1, 2), (2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (outcome,) = outcomes
    assert "deadlock detected" in str(outcome)
    assert isinstance(outcome, DatabaseBusy)


@pytest.mark.parametrize("state", ["40P01", "40001", "55P03"])
def test_a_write_that_others_were_in_the_way_of_may_be_sent_again(state: str) -> None:
    assert fault_of(SimpleNamespace(sqlstate=state)) is faults.BUSY


@pytest.mark.parametrize("fault", [one for one in vars(faults).values() if isinstance(one, Fault)])
def test_a_fault_names_no_file_and_has_a_remedy(fault: Fault) -> None:
    assert issubclass(fault.kind, DatabaseRefused)
    assert fault.remedy
    assert "/" not in fault.cause


def test_kinds_say_what_a_caller_can_do() -> None:
    assert (faults.BUSY.kind, faults.FULL.kind) == (DatabaseBusy, StorageFull)


def test_a_full_disk_is_noticed_in_temporary_files() -> None:
    with (
        Path("/dev/full").open("wb", buffering=0) as disk,
        pytest.raises(StorageFull, match=r"No space left on device.*free some space"),
        storing(),
    ):
        disk.write(b"x")
    with pytest.raises(PermissionError), storing():
        raise PermissionError(errno.EACCES, "not yours")
