"""The way back of the readings: a file in shared memory, written by vLLM's worker.

One slot per request in flight. The worker of any model-parallel or data-parallel rank on this host
maps the file when the first request names it. A ticket keeps a request that was aborted, but is
still in the batch for a step, from writing into a slot that has passed to another request.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlcm_serve.core import Reading, Signal
from rlcm_serve.engine.worker.signals import TokenSignals
from rlcm_serve.errors import EngineDead

_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Where the table lies, how large it is and what it holds; travels with each request.

    With `signals` a reading has all of them, and it is also known what those of tokens were after
    each of the last two: a rollout may turn out to have ended at either.
    """

    path: str
    slots: int
    capacity: int  # readings per slot
    signals: bool = False

    @property
    def layout(self) -> np.dtype[np.void]:
        fields: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = [
            ("ticket", "<i8"),
            ("count", "<i4"),
            ("finished", "<i4"),
            ("final_tokens", "<i4"),
            ("final_confidence", "<f4"),
            ("confidence", "<f4", (self.capacity,)),
        ]
        if self.signals:
            fields += [
                ("final_signals", "<f4", (len(Signal),)),
                ("signals", "<f4", (self.capacity, len(Signal))),
                ("latest_tokens", "<i4", (2,)),
                ("latest", "<f4", (2, len(TokenSignals._fields))),
            ]
        return np.dtype(fields)

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

    @property
    def wanted(self) -> bool:
        """Whether the request still has the slot."""
        return bool(self._row["ticket"] == self._ticket)

    def add(self, number: int, confidence: float, signals: Sequence[float] = ()) -> None:
        """Reports checkpoint `number`, counted from 1; a repeated number replaces."""
        if self._row["ticket"] == self._ticket:
            self._row["confidence"][number - 1] = confidence
            if signals:
                self._row["signals"][number - 1] = signals
            self._row["count"] = number

    def follow(self, tokens: int, signals: TokenSignals) -> None:
        """Reports the signals of the first `tokens` tokens, in case the rollout ends there."""
        if self._row["ticket"] == self._ticket:
            self._row["latest"][tokens % 2] = signals
            self._row["latest_tokens"][tokens % 2] = tokens

    def finish(self, tokens: int, confidence: float, signals: Sequence[float] = ()) -> None:
        """Reports c_end, read after `tokens` reasoning tokens."""
        if self._row["ticket"] == self._ticket:
            self._row["final_tokens"] = tokens
            self._row["final_confidence"] = confidence
            if signals:
                self._row["final_signals"] = signals
            self._row["finished"] = 1


class Slot:
    """The front end's end of one slot, for one request."""

    def __init__(
        self, row: np.void, number: int, ticket: int, interval: int, *, signals: bool = False
    ) -> None:
        self.number, self.ticket = number, ticket
        self._row, self._interval, self._signals = row, interval, signals
        self._taken = 0
        row["count"], row["finished"] = 0, 0
        if signals:
            row["final_signals"], row["latest_tokens"] = math.nan, -1
        row["ticket"] = ticket

    def new(self, received: int) -> list[Reading]:
        """Checkpoints not yet taken, of those before the `received` tokens that were kept.

        A reading after t tokens stands once token t + 1 has been received: until then a chunked or
        resumed prefill may read that length again.
        """
        settled = min(int(self._row["count"]), max(received - 1, 0) // self._interval)
        fresh = [
            Reading(
                (index + 1) * self._interval,
                float(self._row["confidence"][index]),
                signals=named(self._row["signals"][index]) if self._signals else None,
            )
            for index in range(self._taken, settled)
        ]
        self._taken = max(self._taken, settled)
        return fresh

    def final(self) -> Reading | None:
        """c_end, if the worker has reported it."""
        if not self._row["finished"]:
            return None
        return Reading(
            int(self._row["final_tokens"]),
            float(self._row["final_confidence"]),
            is_final=True,
            signals=named(self._row["final_signals"]) if self._signals else None,
        )

    def token_signals(self, tokens: int) -> TokenSignals | None:
        """Those after `tokens` tokens, of which one more at most was looked at; if recorded."""
        if not self._signals or self._row["latest_tokens"][tokens % 2] != tokens:
            return None
        return TokenSignals(*self._row["latest"][tokens % 2].tolist())


def named(signals: Iterable[float]) -> dict[str, float]:
    """Signals by their names; one that the engine cannot read (NaN) is left out."""
    return {
        name.value: float(value)
        for name, value in zip(Signal, signals, strict=True)
        if not math.isnan(value)
    }


class ReadingsTable:
    """The front end's table: hands out slots, and waits when all are taken, until it is closed."""

    def __init__(self, slots: int, capacity: int, *, signals: bool = False) -> None:
        folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        handle, path = tempfile.mkstemp(prefix="rlcm-readings-", dir=folder)
        self.address = TableAddress(path, slots, max(capacity, 1), signals)
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
        signals = self.address.signals
        return Slot(self._rows[number], number, next(self._tickets), interval, signals=signals)

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
