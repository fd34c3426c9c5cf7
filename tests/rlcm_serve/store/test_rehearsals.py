"""Rehearsals in the database, of either kind."""

from __future__ import annotations

import threading

import pytest

from rlcm_serve.store.database import Database
from rlcm_serve.store.rehearsals.stored import StoredRehearsals
from rlcm_serve.store.rehearsals.table import RehearsalRow

DIGEST = "d" * 64


@pytest.fixture
def rehearsals(database: Database) -> StoredRehearsals:
    return StoredRehearsals(database)


def test_processes_that_start_one_rehearsal_together_both_succeed(
    rehearsals: StoredRehearsals, database: Database
) -> None:
    """The other process has begun, and its row is not visible yet."""
    failures: list[Exception] = []

    def start() -> None:
        try:
            rehearsals.start(DIGEST, "second")
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    starting = threading.Thread(target=start)
    with database.session() as session:
        session.add(RehearsalRow(certificate=DIGEST, started=1.0, started_by="first"))
        session.flush()
        starting.start()
        starting.join(0.3)
        assert starting.is_alive(), "it waits for the other process"
    starting.join()
    assert failures == []
    assert rehearsals.running() == [DIGEST]
    with database.reading() as session:
        (row,) = session.query(RehearsalRow).all()
        assert (row.started, row.started_by) == (1.0, "first")


def test_a_rehearsal_that_ended_goes_on(rehearsals: StoredRehearsals) -> None:
    rehearsals.start(DIGEST, None)
    rehearsals.stop(DIGEST)
    assert rehearsals.running() == []
    rehearsals.start(DIGEST, None)
    assert rehearsals.running() == [DIGEST]
