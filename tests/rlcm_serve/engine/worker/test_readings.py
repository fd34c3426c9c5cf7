import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rlcm_serve.core import Reading
from rlcm_serve.engine.worker.extension import WorkerExtension
from rlcm_serve.engine.worker.readings.fetching import Ticket
from rlcm_serve.engine.worker.readings.parcels import Parcel, Wanted, pack, unpack
from rlcm_serve.engine.worker.readings.slots import ReadingsTable, Slot
from rlcm_serve.engine.worker.readings.table import Readings, TableAddress
from rlcm_serve.errors import EngineDead
from tests.rlcm_serve.engine.channels import CHANNELS, FetchedTable, final, new

INTERVAL = 16


@pytest.fixture(params=CHANNELS)
def table(request: pytest.FixtureRequest) -> Iterator[ReadingsTable]:
    table = CHANNELS[request.param](slots=3, capacity=5)
    yield table
    table.close()


@pytest.fixture
def in_a_file() -> Iterator[ReadingsTable]:
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
    assert new(slot, INTERVAL) == []
    assert new(slot, INTERVAL + 1) == [Reading(16, 0.25)]
    assert new(slot, INTERVAL + 9) == [], "each is given once"


def test_a_reading_taken_again_before_that_replaces_the_first(table: ReadingsTable) -> None:
    slot = acquire(table)
    readings = worker(table, slot)
    readings.add(1, 0.25)
    new(slot, INTERVAL)
    readings.add(1, 0.75)
    assert new(slot, INTERVAL + 1) == [Reading(16, 0.75)]


def test_tokens_that_come_together_bring_their_readings_in_order(table: ReadingsTable) -> None:
    slot = acquire(table)
    readings = worker(table, slot)
    for number, confidence in enumerate((0.125, 0.5, 0.875), start=1):
        readings.add(number, confidence)
    expected = [Reading(16, 0.125), Reading(32, 0.5)]
    assert new(slot, 48) == expected
    assert new(slot, 100) == [Reading(48, 0.875)]


def test_tokens_ahead_of_their_readings_bring_none(table: ReadingsTable) -> None:
    slot = acquire(table)
    assert new(slot, 0) == []
    assert new(slot, 100) == []


def test_the_final_reading_is_there_once_it_was_reported(table: ReadingsTable) -> None:
    slot = acquire(table)
    assert final(slot) is None
    worker(table, slot).finish(37, 0.5)
    assert final(slot) == Reading(37, 0.5, is_final=True)


def test_readings_count_tokens_from_before_the_request(table: ReadingsTable) -> None:
    slot = asyncio.run(table.acquire(INTERVAL, start=5))
    readings = worker(table, slot)
    readings.add(1, 0.25)
    assert new(slot, INTERVAL) == []
    assert new(slot, INTERVAL + 1) == [Reading(21, 0.25)]
    readings.finish(20, 0.5)
    assert final(slot) == Reading(25, 0.5, is_final=True)
    assert slot.final(20) is None
    assert slot.final(25) == final(slot)


def test_a_slot_is_cleared_for_its_next_request(table: ReadingsTable) -> None:
    first = acquire(table)
    readings = worker(table, first)
    readings.add(1, 0.9)
    readings.finish(20, 0.9)
    table.release(first)
    slots = [acquire(table) for _ in range(3)]
    again = next(slot for slot in slots if slot.number == first.number)
    assert again.ticket != first.ticket
    assert new(again, 100) == []
    assert final(again) is None


def test_a_late_write_of_an_aborted_request_is_ignored(table: ReadingsTable) -> None:
    aborted = acquire(table)
    late = worker(table, aborted)
    table.release(aborted)
    late.add(1, 0.9)
    assert new(aborted, 100) == [], "nobody has the slot"
    slots = [acquire(table) for _ in range(3)]
    successor = next(slot for slot in slots if slot.number == aborted.number)
    late.add(1, 0.9)
    late.finish(16, 0.9)
    assert new(successor, 100) == []
    assert final(successor) is None
    worker(table, successor).add(1, 0.1)
    (checkpoint,) = new(successor, 100)
    assert checkpoint.confidence == pytest.approx(0.1)


def test_slots_do_not_share_anything(table: ReadingsTable) -> None:
    slots = [acquire(table) for _ in range(3)]
    for slot in slots:
        worker(table, slot).add(1, slot.number / 4)
    assert [new(slot, 17)[0].confidence for slot in slots] == [0.0, 0.25, 0.5]


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


def test_another_process_writes_into_the_same_table(in_a_file: ReadingsTable) -> None:
    slot, address = acquire(in_a_file), in_a_file.address
    numbers = (address.slots, address.capacity, slot.number, slot.ticket)
    command = [sys.executable, "-c", OTHER_PROCESS, address.path, *map(str, numbers)]
    subprocess.run(command, check=True, timeout=60)
    assert new(slot, 20) == [Reading(16, 0.5)]
    assert final(slot) == Reading(20, 0.25, is_final=True)


def test_closing_removes_the_file_and_leaves_the_maps(in_a_file: ReadingsTable) -> None:
    slot = acquire(in_a_file)
    readings = worker(in_a_file, slot)
    assert Path(in_a_file.address.path).exists()
    in_a_file.unlink()
    assert not Path(in_a_file.address.path).exists()
    in_a_file.close()
    in_a_file.close()
    readings.add(1, 0.5)
    assert new(slot, 17) == [Reading(16, 0.5)]


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


def fetched(**layout: int) -> FetchedTable:
    return FetchedTable(slots=3, capacity=5, **layout)


async def test_only_what_is_due_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table, asked = fetched(), []
    ask_worker = table._ask_worker

    async def count(wanted: Sequence[Wanted], released: Sequence[Ticket]) -> list[Parcel | None]:
        asked.append((*wanted, *released))
        return await ask_worker(wanted, released)

    assert table._fetcher is not None
    monkeypatch.setattr(table._fetcher, "_ask", count)
    slot = await table.acquire(INTERVAL)
    readings = worker(table, slot)
    for tokens in range(1, 3 * INTERVAL + 2):
        if tokens % INTERVAL == 0:
            readings.add(tokens // INTERVAL, tokens / 100)
        await slot.catch_up(tokens)
        slot.new(tokens)
    assert len(asked) == 3, "three readings are due"
    readings.finish(50, 0.5)
    await slot.catch_up(51, end=True)
    assert len(asked) == 4
    assert slot.final() == Reading(50, 0.5, is_final=True)


async def test_questions_of_a_step_are_asked_together() -> None:
    asked: list[int] = []

    async def ask(wanted: Sequence[Wanted], released: Sequence[Ticket]) -> list[Parcel | None]:
        asked.append(len(wanted))
        await asyncio.sleep(0.01)
        return [None] * len(wanted)

    table = ReadingsTable(slots=8, capacity=5, ask=ask)
    slots = [await table.acquire(INTERVAL) for _ in range(8)]
    await asyncio.gather(*(slot.catch_up(INTERVAL + 1) for slot in slots))
    assert asked == [8]
    first = asyncio.create_task(slots[0].catch_up(INTERVAL + 1))
    await asyncio.sleep(0.001)
    await asyncio.gather(first, *(slot.catch_up(INTERVAL + 1) for slot in slots[1:]))
    assert asked == [8, 1, 7], "who comes during a question is in the next"


async def test_the_worker_hears_which_requests_have_ended() -> None:
    table = fetched()
    first, second = await table.acquire(INTERVAL), await table.acquire(INTERVAL)
    late, readings = worker(table, first), worker(table, second)
    table.release(first)
    assert late.wanted
    readings.add(1, 0.5)
    await second.catch_up(INTERVAL + 1)
    assert not late.wanted, "it may write no more, and keep no distributions"
    assert second.new(INTERVAL + 1) == [Reading(16, 0.5)]


async def test_an_answer_that_comes_late_is_not_written_into_the_next_requests_slot() -> None:
    go = asyncio.Event()

    async def ask(wanted: Sequence[Wanted], released: Sequence[Ticket]) -> list[Parcel | None]:
        await go.wait()
        row = np.zeros(1, table.address.layout)[0]
        row["ticket"], row["count"], row["confidence"][0] = wanted[0].ticket, 1, 0.9
        return [pack(row, wanted[0])]

    table = ReadingsTable(slots=1, capacity=5, ask=ask)
    aborted = await table.acquire(INTERVAL)
    waiting = asyncio.create_task(aborted.catch_up(INTERVAL + 1))
    await asyncio.sleep(0)
    waiting.cancel()
    table.release(aborted)
    successor = await table.acquire(INTERVAL)
    go.set()
    await asyncio.sleep(0.01)
    assert successor.new(100) == []


async def test_whoever_waits_for_an_answer_is_told_when_the_table_is_closed() -> None:
    async def ask(wanted: Sequence[Wanted], released: Sequence[Ticket]) -> list[Parcel | None]:
        await asyncio.Event().wait()  # as vLLM, which never answers once it has died
        raise AssertionError

    table = ReadingsTable(slots=3, capacity=5, ask=ask)
    slots = [await table.acquire(INTERVAL) for _ in range(3)]
    waiting = [asyncio.create_task(slot.catch_up(INTERVAL + 1)) for slot in slots[:2]]
    await asyncio.sleep(0.01)
    waiting.append(asyncio.create_task(slots[2].catch_up(INTERVAL + 1)))
    await asyncio.sleep(0.01)
    table.close()
    told = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
    assert [type(error) for error in told] == [EngineDead] * 3
    with pytest.raises(EngineDead):
        await slots[0].catch_up(INTERVAL + 1)


async def test_a_worker_that_cannot_answer_ends_the_request() -> None:
    async def ask(wanted: Sequence[Wanted], released: Sequence[Ticket]) -> list[Parcel | None]:
        raise ValueError("no such method")

    table = ReadingsTable(slots=3, capacity=5, ask=ask)
    slot = await table.acquire(INTERVAL)
    with pytest.raises(EngineDead, match="could not return a reading: no such method"):
        await slot.catch_up(INTERVAL + 1)


def test_every_field_arrives_as_it_was_written() -> None:
    """The worker's slot and the front end's, with everything that a table can hold."""
    layout = {"signals": True, "tokens": 9, "inputs": 4, "prompt": 3}
    address = TableAddress("", 1, 5, **layout)
    ours, theirs = (np.zeros(1, address.layout)[0] for _ in range(2))
    rng = np.random.default_rng(0)
    for name in address.layout.names or ():
        theirs[name] = rng.integers(2, 9, theirs[name].shape)
    theirs["ticket"], theirs["count"] = 7, 5
    ours["confidence"][:2] = theirs["confidence"][:2]
    for taken in (0, 2):
        wanted = Wanted(0, 7, taken, figures=True)
        parcel = pack(theirs, wanted)
        assert parcel is not None
        unpack(ours, wanted, parcel)
    ours["ticket"] = 7
    ours["figures"][theirs["observed"] :] = theirs["figures"][theirs["observed"] :]
    assert ours == theirs
    assert pack(theirs, Wanted(0, 8)) is None


def test_a_worker_knows_the_front_ends_file_by_its_mark(in_a_file: ReadingsTable) -> None:
    in_a_file.mark(41)
    sees = partial(WorkerExtension().rlcm_sees_table, asdict(in_a_file.address))
    assert sees(41)
    assert not sees(42), "a file of the same name on another host"
    elsewhere = replace(in_a_file.address, path="/dev/shm/rlcm-readings-elsewhere")
    assert not WorkerExtension().rlcm_sees_table(asdict(elsewhere), 41)
