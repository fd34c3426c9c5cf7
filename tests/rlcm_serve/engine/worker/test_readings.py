import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlcm_serve.core import Reading
from rlcm_serve.engine.worker.readings.slots import ReadingsTable, Slot
from rlcm_serve.engine.worker.readings.table import Readings
from rlcm_serve.errors import EngineDead

INTERVAL = 16


@pytest.fixture
def table() -> Iterator[ReadingsTable]:
    table = ReadingsTable(slots=3, capacity=5)
    yield table
    table.close()


def acquire(table: ReadingsTable) -> Slot:
    return asyncio.run(table.acquire(INTERVAL))


def worker(table: ReadingsTable, slot: Slot) -> Readings:
    return Readings(table.address, slot.number, slot.ticket)


def test_a_reading_stands_once_the_next_token_came(table: ReadingsTable) -> None:
    slot = acquire(table)
    readings = worker(table, slot)
    readings.add(1, 0.25)
    assert slot.new(received=INTERVAL) == []
    assert slot.new(received=INTERVAL + 1) == [Reading(16, 0.25)]
    assert slot.new(received=INTERVAL + 9) == [], "each is given once"


def test_a_reading_taken_again_before_that_replaces_the_first(table: ReadingsTable) -> None:
    slot = acquire(table)
    readings = worker(table, slot)
    readings.add(1, 0.25)
    slot.new(received=INTERVAL)
    readings.add(1, 0.75)
    assert slot.new(received=INTERVAL + 1) == [Reading(16, 0.75)]


def test_tokens_that_come_together_bring_their_readings_in_order(table: ReadingsTable) -> None:
    slot = acquire(table)
    readings = worker(table, slot)
    for number, confidence in enumerate((0.125, 0.5, 0.875), start=1):
        readings.add(number, confidence)
    expected = [Reading(16, 0.125), Reading(32, 0.5)]
    assert slot.new(received=48) == expected
    assert slot.new(received=100) == [Reading(48, 0.875)]


def test_tokens_ahead_of_their_readings_bring_none(table: ReadingsTable) -> None:
    slot = acquire(table)
    assert slot.new(received=0) == []
    assert slot.new(received=100) == []


def test_the_final_reading_is_there_once_it_was_reported(table: ReadingsTable) -> None:
    slot = acquire(table)
    assert slot.final() is None
    worker(table, slot).finish(37, 0.5)
    assert slot.final() == Reading(37, 0.5, is_final=True)


def test_a_slot_is_cleared_for_its_next_request(table: ReadingsTable) -> None:
    first = acquire(table)
    readings = worker(table, first)
    readings.add(1, 0.9)
    readings.finish(20, 0.9)
    table.release(first)
    slots = [acquire(table) for _ in range(3)]
    again = next(slot for slot in slots if slot.number == first.number)
    assert again.ticket != first.ticket
    assert again.new(received=100) == []
    assert again.final() is None


def test_a_late_write_of_an_aborted_request_is_ignored(table: ReadingsTable) -> None:
    aborted = acquire(table)
    late = worker(table, aborted)
    table.release(aborted)
    late.add(1, 0.9)
    assert aborted.new(received=100) == [], "nobody has the slot"
    slots = [acquire(table) for _ in range(3)]
    successor = next(slot for slot in slots if slot.number == aborted.number)
    late.add(1, 0.9)
    late.finish(16, 0.9)
    assert successor.new(received=100) == []
    assert successor.final() is None
    worker(table, successor).add(1, 0.1)
    (checkpoint,) = successor.new(received=100)
    assert checkpoint.confidence == pytest.approx(0.1)


def test_slots_do_not_share_anything(table: ReadingsTable) -> None:
    slots = [acquire(table) for _ in range(3)]
    for slot in slots:
        worker(table, slot).add(1, slot.number / 4)
    assert [slot.new(received=17)[0].confidence for slot in slots] == [0.0, 0.25, 0.5]


async def test_who_finds_no_free_slot_waits_for_one(table: ReadingsTable) -> None:
    taken = [await table.acquire(INTERVAL) for _ in range(3)]
    waiting = asyncio.create_task(table.acquire(INTERVAL))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    table.release(taken[1])
    slot = await asyncio.wait_for(waiting, 1)
    assert slot.number == taken[1].number


async def test_who_gives_up_waiting_takes_no_slot(table: ReadingsTable) -> None:
    taken = [await table.acquire(INTERVAL) for _ in range(3)]
    waiting = asyncio.create_task(table.acquire(INTERVAL))
    await asyncio.sleep(0)
    waiting.cancel()
    table.release(taken[0])
    assert (await asyncio.wait_for(table.acquire(INTERVAL), 1)).number == taken[0].number


async def test_whoever_waits_is_told_when_the_table_is_closed(table: ReadingsTable) -> None:
    taken = [await table.acquire(INTERVAL) for _ in range(3)]
    waiting = [asyncio.create_task(table.acquire(INTERVAL)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    table.close()
    _, *told = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
    assert [type(error) for error in told] == [EngineDead] * 4
    table.release(taken[0])
    for _ in range(2):
        with pytest.raises(EngineDead):
            await table.acquire(INTERVAL)


async def test_a_table_without_its_file_goes_on(table: ReadingsTable) -> None:
    taken = [await table.acquire(INTERVAL) for _ in range(3)]
    table.unlink()
    table.release(taken[2])
    assert (await table.acquire(INTERVAL)).number == taken[2].number


OTHER_PROCESS = """
import sys
from rlcm_serve.engine.worker.readings.table import Readings, TableAddress
path, *numbers = sys.argv[1:]
slots, capacity, slot, ticket = map(int, numbers)
readings = Readings(TableAddress(path, slots, capacity), slot, ticket)
readings.add(1, 0.5)
readings.finish(20, 0.25)
"""


def test_another_process_writes_into_the_same_table(table: ReadingsTable) -> None:
    slot, address = acquire(table), table.address
    numbers = (address.slots, address.capacity, slot.number, slot.ticket)
    command = [sys.executable, "-c", OTHER_PROCESS, address.path, *map(str, numbers)]
    subprocess.run(command, check=True, timeout=60)
    assert slot.new(received=20) == [Reading(16, 0.5)]
    assert slot.final() == Reading(20, 0.25, is_final=True)


def test_closing_removes_the_file_and_leaves_the_maps(table: ReadingsTable) -> None:
    slot = acquire(table)
    readings = worker(table, slot)
    assert Path(table.address.path).exists()
    table.unlink()
    assert not Path(table.address.path).exists()
    table.close()
    table.close()
    readings.add(1, 0.5)
    assert slot.new(received=17) == [Reading(16, 0.5)]


def test_a_table_larger_than_shared_memory_is_kept_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write into full shared memory would kill the worker."""
    free = SimpleNamespace(free=10_000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: free)
    for tokens, shared in ((64, True), (4096, False)):
        table = ReadingsTable(slots=3, capacity=5, tokens=tokens)
        assert (Path(table.address.path).parent == Path("/dev/shm")) == shared
        table.close()
