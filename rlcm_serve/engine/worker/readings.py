"""Returns readings from vLLM's worker to the service, through a file in shared memory.

Every request in flight has one slot. The worker of any model-parallel or data-parallel rank on this
host maps the file when the first request names it. An aborted request may stay in the batch for one
more step. Its ticket keeps it from writing into a slot that belongs to another request by then.
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
    """Path, size and layout of the table; sent with every request.

    With `signals`, a reading holds all signals. The table then also keeps the token signals after
    each of the last two tokens, because the rollout may have ended at either.
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
    """One slot, as the worker writes it."""

    def __init__(self, address: TableAddress, slot: int, ticket: int) -> None:
        self._row = _mapped(address)[slot]
        self._ticket = ticket

    @property
    def wanted(self) -> bool:
        """Whether the slot still belongs to the request."""
        return bool(self._row["ticket"] == self._ticket)

    def add(self, number: int, confidence: float, signals: Sequence[float] = ()) -> None:
        """Reports the reading at checkpoint `number`, counted from 1; a repeat replaces it."""
        if self._row["ticket"] == self._ticket:
            self._row["confidence"][number - 1] = confidence
            if signals:
                self._row["signals"][number - 1] = signals
            self._row["count"] = number

    def note_tokens(self, tokens: int, signals: TokenSignals) -> None:
        """Reports the token signals after `tokens` tokens, in case the rollout ends there."""
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
    """One slot, as the front end reads it for one request."""

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
        """Readings that are settled after `received` tokens and were not returned before.

        A reading after t tokens is settled when token t + 1 arrives. Until then, a chunked or
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
        """The token signals after `tokens` tokens; None if the table does not hold them."""
        if not self._signals or self._row["latest_tokens"][tokens % 2] != tokens:
            return None
        return TokenSignals(*self._row["latest"][tokens % 2].tolist())


def named(signals: Iterable[float]) -> dict[str, float]:
    """Signals by name, without those that the engine cannot read (NaN)."""
    return {
        name.value: float(value)
        for name, value in zip(Signal, signals, strict=True)
        if not math.isnan(value)
    }


class ReadingsTable:
    """The front end's table. It hands out slots; while all are taken, callers wait."""

    def __init__(self, slots: int, capacity: int, *, signals: bool = False) -> None:
        folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        handle, path = tempfile.mkstemp(prefix="rlcm-readings-", dir=folder)
        self.address = TableAddress(path, slots, max(capacity, 1), signals)
        os.ftruncate(handle, slots * self.address.layout.itemsize)
        os.close(handle)
        self._rows = self.address.map()
        self._tickets = itertools.count(1)
        self._closed = False
        self._free: asyncio.Queue[int | None] = asyncio.Queue()  # None when closed
        for slot in range(slots):
            self._free.put_nowait(slot)

    async def acquire(self, interval: int) -> Slot:
        """Waits for a free slot, and clears it.

        Raises:
            EngineDead: the table is closed, or was closed during the wait.
        """
        number = await self._free.get()
        if number is None:
            self._free.put_nowait(None)  # for the next waiting task
            raise EngineDead("the engine died before a sample could begin")
        signals = self.address.signals
        return Slot(self._rows[number], number, next(self._tickets), interval, signals=signals)

    def release(self, slot: Slot) -> None:
        """Takes a slot back; later writes of its request are ignored."""
        self._rows[slot.number]["ticket"] = 0
        if not self._closed:
            self._free.put_nowait(slot.number)

    def unlink(self) -> None:
        """Removes the file; processes that have mapped it can still use it."""
        Path(self.address.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Stops handing out slots; every waiting task gets `EngineDead`."""
        self.unlink()
        if not self._closed:
            self._closed = True
            while not self._free.empty():
                self._free.get_nowait()
            self._free.put_nowait(None)
