"""The way back of the probe's readings: a file in shared memory, written by vLLM's worker.

One slot per request in flight. The worker of any model-parallel or data-parallel rank on this host
maps the file when the first request names it. A ticket keeps a request that was aborted, but is
still in the batch for a step, from writing into a slot that has passed to another request.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlcm_serve.core import Checkpoint
from rlcm_serve.errors import EngineDead

_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Where the table lies and how large it is; travels with each request."""

    path: str
    slots: int
    capacity: int  # readings per slot

    @property
    def layout(self) -> np.dtype[np.void]:
        return np.dtype(
            [
                ("ticket", "<i8"),
                ("count", "<i4"),
                ("finished", "<i4"),
                ("final_tokens", "<i4"),
                ("final_confidence", "<f4"),
                ("confidence", "<f4", (self.capacity,)),
            ]
        )

    def map(self) -> npt.NDArray[np.void]:
        """Maps the table's file into this process."""
        return np.memmap(self.path, dtype=self.layout, mode="r+", shape=(self.slots,))


@cache
def _mapped(address: TableAddress) -> npt.NDArray[np.void]:
    return address.map()


class Readings:
    """The worker's end of one slot."""

    def __init__(self, address: TableAddress, slot: int, ticket: int) -> None:
        self._row = _mapped(address)[slot]
        self._ticket = ticket

    def add(self, number: int, confidence: float) -> None:
        """Reports checkpoint `number`, counted from 1; a repeated number replaces."""
        if self._row["ticket"] == self._ticket:
            self._row["confidence"][number - 1] = confidence
            self._row["count"] = number

    def finish(self, tokens: int, confidence: float) -> None:
        """Reports c_end, read after `tokens` reasoning tokens."""
        if self._row["ticket"] == self._ticket:
            self._row["final_tokens"] = tokens
            self._row["final_confidence"] = confidence
            self._row["finished"] = 1


class Slot:
    """The front end's end of one slot, for one request."""

    def __init__(self, row: np.void, number: int, ticket: int, interval: int) -> None:
        self.number, self.ticket = number, ticket
        self._row, self._interval = row, interval
        self._taken = 0
        row["count"], row["finished"] = 0, 0
        row["ticket"] = ticket

    def new(self, received: int) -> list[Checkpoint]:
        """Checkpoints not yet taken, of those before the `received` tokens that were kept.

        A reading after t tokens stands once token t + 1 has been received: until then a chunked or
        resumed prefill may read that length again.
        """
        standing = min(int(self._row["count"]), max(received - 1, 0) // self._interval)
        fresh = [
            Checkpoint((index + 1) * self._interval, float(self._row["confidence"][index]))
            for index in range(self._taken, standing)
        ]
        self._taken = max(self._taken, standing)
        return fresh

    def final(self) -> Checkpoint | None:
        """c_end, if the worker has reported it."""
        if not self._row["finished"]:
            return None
        tokens = int(self._row["final_tokens"])
        return Checkpoint(tokens, float(self._row["final_confidence"]), is_final=True)


class ReadingsTable:
    """The front end's table: hands out slots, and waits when all are taken, until it is closed."""

    def __init__(self, slots: int, capacity: int) -> None:
        folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        handle, path = tempfile.mkstemp(prefix="rlcm-readings-", dir=folder)
        self.address = TableAddress(path, slots, max(capacity, 1))
        os.ftruncate(handle, slots * self.address.layout.itemsize)
        os.close(handle)
        self._rows = self.address.map()
        self._tickets = itertools.count(1)
        self._closed = False
        self._free: asyncio.Queue[int | None] = asyncio.Queue()  # None once it is closed
        for slot in range(slots):
            self._free.put_nowait(slot)

    async def acquire(self, interval: int) -> Slot:
        """A free slot, cleared; waits for one if need be.

        Raises:
            EngineDead: the table was closed, perhaps while this waited.
        """
        number = await self._free.get()
        if number is None:
            self._free.put_nowait(None)  # for the next one who waits
            raise EngineDead("the engine died before a sample could begin")
        return Slot(self._rows[number], number, next(self._tickets), interval)

    def release(self, slot: Slot) -> None:
        """Takes a slot back; what its request still writes is ignored."""
        self._rows[slot.number]["ticket"] = 0
        if not self._closed:
            self._free.put_nowait(slot.number)

    def unlink(self) -> None:
        """Removes the file; maps of it stay valid until their processes end."""
        Path(self.address.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Hands out no slot any more; whoever waits for one is told."""
        self.unlink()
        if not self._closed:
            self._closed = True
            while not self._free.empty():
                self._free.get_nowait()
            self._free.put_nowait(None)
