"""What waits for whom: writers for writers, and nobody else for anybody."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import select, update

from rlcm_serve.errors import DatabaseBusy, DatabaseRefused
from rlcm_serve.store.connection import engines
from rlcm_serve.store.connection.engines import LOOK_WITHIN, FileIdentity
from rlcm_serve.store.connection.faults import Fault
from rlcm_serve.store.connection.threads import READERS
from rlcm_serve.store.database import Database
from rlcm_serve.store.schema.version import SCHEMA_VERSION, SchemaVersion
from tests.rlcm_serve.postgres import PostgresServer

WAIT = 0.2
LONG = 5.0
"""Seconds that none of these tests may take, on a busy machine either."""


@pytest.fixture
def impatient(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url, WAIT)) as database:
        yield database


def write(database: Database) -> None:
    with database.session() as session:
        session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))


def test_a_writer_waits_so_long_and_says_that_another_one_writes(impatient: Database) -> None:
    with impatient.session() as session:
        session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))
        began = time.monotonic()
        with pytest.raises(DatabaseBusy, match="increase database_wait_s") as busy:
            write(impatient)
        assert WAIT * 0.9 < time.monotonic() - began < LONG
    assert "another process is writing" in busy.value.public
    assert str(impatient.url.database) not in busy.value.public
    write(impatient)


def test_a_process_that_freezes_while_it_writes_to_postgres_stops_the_others_not_for_long(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it goes on, it gets an error of the database, and can write again."""
    monkeypatch.setattr(engines, "FROZEN_AFTER", WAIT)
    others_wrote = False

    def freeze(database: Database) -> None:
        nonlocal others_wrote
        with database.session() as session:
            session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))
            write(database)
            others_wrote = True
            session.scalars(select(SchemaVersion.version)).all()

    with closing(Database(postgres.new_database(), LONG)) as database:
        with pytest.raises(DatabaseRefused, match="idle-in-transaction"):
            freeze(database)
        assert others_wrote
        write(database)


def test_whoever_waits_for_sqlite_looks_the_more_often_the_longer_it_waits(tmp_path: Path) -> None:
    """SQLite looks more rarely; among eager processes, somebody then waits in vain."""
    longest: list[float] = []

    def drawn(low: float, high: float) -> float:
        longest.append(high)
        return low

    with (
        closing(Database(f"sqlite:///{tmp_path}/rlcm.db", WAIT)) as database,
        database.session() as session,
        patch("rlcm_serve.store.connection.engines.random.uniform", drawn),
    ):
        session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))
        with pytest.raises(DatabaseBusy):
            write(database)
    assert longest == sorted(longest, reverse=True)
    assert len(longest) > 1
    assert longest[0] <= LOOK_WITHIN
    assert longest[-1] < longest[0]


def test_a_database_opens_while_another_process_writes(database_url: str) -> None:
    with closing(Database(database_url, WAIT)) as first, first.session() as session:
        session.execute(update(SchemaVersion).values(version=SCHEMA_VERSION))
        Database(database_url, WAIT).close()


async def test_reads_and_checks_go_on_while_every_writer_waits(impatient: Database) -> None:
    free = threading.Event()
    writes = [
        asyncio.create_task(impatient.threads.write(free.wait, LONG)) for _ in range(3 * READERS)
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(LONG):
        assert await impatient.threads.read(lambda: "read") == "read"
        assert await impatient.threads.check(lambda: "checked") == "checked"
        assert await impatient.health.fault() is None
    outcomes = asyncio.gather(*writes, return_exceptions=True)
    await asyncio.sleep(2 * WAIT)
    free.set()
    found = await outcomes
    refused = [one for one in found if isinstance(one, DatabaseBusy)]
    places = 1 if impatient.is_sqlite else 4
    assert len(refused) == len(writes) - places, "those that found no place in time"
    assert found.count(True) == places


async def test_a_caller_that_leaves_does_not_give_its_place_away_too_early(
    impatient: Database,
) -> None:
    places = 1 if impatient.is_sqlite else 4
    free = threading.Event()
    writes = [asyncio.create_task(impatient.threads.write(free.wait, LONG)) for _ in range(places)]
    await asyncio.sleep(0.05)
    for one in writes:
        one.cancel()
    with pytest.raises(DatabaseBusy, match=r"no write could begin.*Event\.wait for \d"):
        await impatient.threads.write(free.is_set)
    free.set()
    async with asyncio.timeout(LONG):
        assert await impatient.threads.write(free.is_set)


@pytest.mark.parametrize(("back", "said"), [(False, "was removed"), (True, "was replaced")])
def test_a_file_that_is_not_the_one_that_was_opened_is_not_used(
    tmp_path: Path, back: bool, said: str
) -> None:
    file = tmp_path / "rlcm.db"
    with closing(Database(f"sqlite:///{file}")) as database:
        file.rename(tmp_path / "away.db")
        if back:
            Database(f"sqlite:///{file}").close()
        for attempt in (write, lambda database: database.reading().__enter__()):
            with pytest.raises(DatabaseRefused, match=said):
                attempt(database)
        if not back:  # else SQLite has mixed both files' logs, and no file is whole
            (tmp_path / "away.db").rename(file)
            write(database)


def test_a_connection_that_opens_while_the_file_is_removed_creates_none(tmp_path: Path) -> None:
    file, away, looked = tmp_path / "rlcm.db", tmp_path / "away.db", FileIdentity.fault

    def look_and_lose(identity: FileIdentity) -> Fault | None:
        found = looked(identity)
        if file.exists():
            file.rename(away)
        return found

    with closing(Database(f"sqlite:///{file}")) as database:
        with database.reading() as session:
            session.scalars(select(SchemaVersion.version)).all()  # the pool's only connection
            with (
                patch.object(FileIdentity, "fault", look_and_lose),
                pytest.raises(DatabaseRefused, match="was removed"),
            ):
                write(database)
        assert not file.exists()
        away.rename(file)
        write(database)
