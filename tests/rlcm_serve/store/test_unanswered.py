"""Unanswered questions in the database, of either kind."""

import asyncio
import os
import threading

from sqlalchemy import func, select

from rlcm_serve.store.connection.threads import READERS
from rlcm_serve.store.database import Database
from rlcm_serve.store.unanswered.stored import StoredUnanswered
from rlcm_serve.store.unanswered.table import UnansweredRow

ONE, OTHER = b"1" * 32, b"2" * 32


class Clock:
    """Unix time, as the test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_question_is_remembered_for_its_key_and_its_time(database: Database) -> None:
    clock = Clock()
    asked = StoredUnanswered(database, limit=60, clock=clock)
    assert await asked.find("a", ONE) is None
    await asked.add("a", ONE)
    clock.now += 59
    assert await asked.find("a", ONE) == 1000.0
    for key_id, digest in (("a", OTHER), ("b", ONE), (None, ONE)):
        assert await asked.find(key_id, digest) is None
    clock.now += 1
    assert await asked.find("a", ONE) is None


async def test_asked_again_without_an_answer_its_time_begins_anew(database: Database) -> None:
    clock = Clock()
    asked = StoredUnanswered(database, limit=60, clock=clock)
    await asked.add(None, ONE)
    clock.now += 50
    await asked.add(None, ONE)
    clock.now += 50
    assert await asked.find(None, ONE) == 1050.0


async def test_replicas_share_what_they_remember(database: Database, database_url: str) -> None:
    one = StoredUnanswered(database, limit=60)
    await one.add("a", ONE)
    replica = Database(database_url)
    try:
        other = StoredUnanswered(replica, limit=60)
        assert await other.find("a", ONE) is not None
    finally:
        replica.close()


async def test_replicas_that_start_at_once_have_one_secret(
    database: Database, database_url: str
) -> None:
    replicas = [Database(database_url) for _ in range(4)]
    try:
        started = await asyncio.gather(
            *(asyncio.to_thread(StoredUnanswered, one, 60) for one in replicas)
        )
        await started[0].add("a", ONE)
        assert None not in [await one.find("a", ONE) for one in started]
    finally:
        for one in replicas:
            one.close()


async def test_a_digest_without_the_secret_is_not_found(database: Database) -> None:
    asked = StoredUnanswered(database, limit=60)
    await asked.add(None, ONE)
    with database.reading() as session:
        (stored,) = session.scalars(select(UnansweredRow.digest))
    assert ONE not in stored
    assert len(stored) == 32


async def test_the_oldest_questions_of_a_key_are_forgotten_first(database: Database) -> None:
    clock = Clock()
    asked = StoredUnanswered(database, limit=10_000, clock=clock, most=300)
    await asked.add("b", ONE)
    for _ in range(2 * 256 + 1):  # it looks at every 256th
        clock.now += 1
        await asked.add("a", os.urandom(32))
    with database.reading() as session:
        of_a = UnansweredRow.key_id == "a"
        times = session.scalars(select(UnansweredRow.asked).where(of_a)).all()
    assert len(times) <= 300 + 1
    assert max(times) == clock.now
    assert await asked.find("b", ONE) is not None


async def test_what_is_too_old_is_deleted(database: Database) -> None:
    clock = Clock()
    StoredUnanswered(database, limit=60, clock=clock)
    asked = StoredUnanswered(database, limit=60, clock=clock)
    for _ in range(10):
        await asked.add("b", os.urandom(32))
    clock.now += 61
    await StoredUnanswered(database, limit=60, clock=clock).add("a", ONE)
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(UnansweredRow)) == 1


async def test_no_question_waits_for_long_lists(database: Database) -> None:
    asked, free = StoredUnanswered(database, limit=60), threading.Event()
    await asked.add("a", ONE)
    lists = [asyncio.create_task(database.threads.read(free.wait, 60)) for _ in range(READERS)]
    try:
        async with asyncio.timeout(30):
            assert await asked.find("a", ONE) is not None
    finally:
        free.set()
    assert all(await asyncio.gather(*lists))
