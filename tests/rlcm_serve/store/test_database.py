import stat
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text, update

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.database import Database
from rlcm_serve.store.schema.version import SCHEMA_VERSION, SchemaVersion
from tests.rlcm_serve.postgres import PostgresServer


def version_of(database: Database) -> int:
    with database.reading() as session:
        return session.scalars(text("SELECT version FROM rlcm_schema")).one()


def test_tables_are_made_once_and_found_again(database_url: str) -> None:
    first = Database(database_url)
    second = Database(database_url)
    assert version_of(first) == version_of(second) == SCHEMA_VERSION
    first.close()
    second.close()


def test_a_transaction_that_fails_leaves_nothing(database: Database) -> None:
    def fail() -> None:
        with database.session() as session:
            session.execute(update(SchemaVersion).values(version=7))
            raise KeyError("halfway")

    with pytest.raises(KeyError, match="halfway"):
        fail()
    assert version_of(database) == SCHEMA_VERSION


def test_tables_of_another_version_are_refused(database_url: str) -> None:
    database = Database(database_url)
    with database.session() as session:
        session.execute(update(SchemaVersion).values(version=99))
    database.close()
    with pytest.raises(DatabaseRefused, match="tables of version 99, and this rlcm-serve knows"):
        Database(database_url)


def test_writers_from_many_threads_wait_for_each_other(database: Database) -> None:
    with database.session() as session:
        session.execute(text("CREATE TABLE counter (n INTEGER)"))
        session.execute(text("INSERT INTO counter VALUES (0)"))
    lock = "" if database.is_sqlite else " FOR UPDATE"

    def count() -> None:
        for _ in range(25):
            with database.session() as session:
                n = session.scalars(text(f"SELECT n FROM counter{lock}")).one()
                session.execute(text("UPDATE counter SET n = :n"), {"n": n + 1})

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as session:
        assert session.scalars(text("SELECT n FROM counter")).one() == 200


def test_a_reader_does_not_wait_for_the_writer(database: Database) -> None:
    with database.session() as writing:
        writing.execute(update(SchemaVersion).values(version=2))
        assert version_of(database) == SCHEMA_VERSION
        writing.rollback()


def test_a_transaction_that_outlives_the_database_closes_its_connection(database: Database) -> None:
    began, may_end = threading.Event(), threading.Event()
    used = []

    def work() -> None:
        with database.session() as session:
            used.append(session.connection().connection.dbapi_connection)
            began.set()
            assert may_end.wait(10)
            session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(10)
    database.close()
    may_end.set()
    thread.join()
    with pytest.raises(Exception, match="closed"):
        used[0].execute("SELECT 1")


def test_databases_start_together(postgres: PostgresServer, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/x.db", postgres.new_database()):
        failures: list[Exception] = []

        def start(url: str = url, failures: list[Exception] = failures) -> None:
            try:
                Database(url).close()
            except DatabaseRefused as error:
                failures.append(error)

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_the_folder_of_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    Database(f"sqlite:///{tmp_path}/a/rlcm.db").close()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite://", "in memory is lost with the process"),
        ("sqlite:///:memory:", "in memory is lost with the process"),
        ("mysql://somewhere/x", "'mysql': give sqlite"),
        ("no url", "cannot be read"),
        ("postgresql://u:secret@h:abc/x", "the port .* is not a number: give postgresql://"),
        ("sqlite:////proc/nowhere/x.db", "cannot be used: .*check its address"),
        ("postgresql://u:secret@127.0.0.1:1/x", r"u:\*\*\*@.* cannot be used"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_a_reason(url: str, why: str) -> None:
    with pytest.raises(DatabaseRefused, match=why) as refused:
        Database(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("something else entirely, long enough to be read as a page")
    with pytest.raises(DatabaseRefused, match="not a database"):
        Database(f"sqlite:///{tmp_path}/x.db")


@pytest.mark.slow
def test_a_database_that_went_away_is_named(postgres: PostgresServer) -> None:
    gone = Database(postgres.new_database())
    postgres.drop(str(gone.url.database))
    with pytest.raises(DatabaseRefused, match="does not exist"):
        version_of(gone)
    gone.close()


def test_without_the_driver_postgres_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DatabaseRefused, match=r"pip install '\.\[postgres\]'` in the checkout"):
        Database("postgresql://somewhere/rlcm")


def test_a_file_is_its_owners_alone_whatever_the_folder_allows(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    database = Database(f"sqlite:///{tmp_path}/rlcm.db")
    with database.session() as session:
        session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    database.close()
    assert modes == dict.fromkeys(("rlcm.db", "rlcm.db-wal", "rlcm.db-shm"), 0o600)
