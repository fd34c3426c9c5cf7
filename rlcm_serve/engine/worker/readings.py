"""Returns readings from vLLM's worker to the service, through a file in shared memory.

Where tokens are tracked, the file also holds the figures of every token (`statistics`). All ranks
of a model write the same values.

Every request in flight has one slot. The worker of any model-parallel or data-parallel rank on this
host maps the file when the first request names it. An aborted request may stay in the batch for one
more step. Its ticket keeps it from writing into a slot that belongs to another request by then.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlcm_serve.core import Reading, Signal
from rlcm_serve.engine.worker.signals import TokenFigures, TokenSignals, window_of
from rlcm_serve.engine.worker.statistics import FIGURES, Figures, TokenStatistics
from rlcm_serve.errors import EngineDead

_SHARED_MEMORY = Path("/dev/shm")

Inputs = npt.NDArray[np.float32]
"""What a probe reads: the state (H), then the `STATISTICS` of the tokens; shape (H + 12,)."""


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Path, size and layout of the table; sent with every request.

    Attributes:
        path: the table's file.
        slots: requests that can be in flight.
        capacity: readings per slot.
        signals: whether a reading holds all signals, which needs `tokens`.
        tokens: most tokens of a rollout whose figures are kept; 0 if none are.
        inputs: length of a probe's inputs in a reading; 0 if they are not recorded.
    """

    path: str
    slots: int
    capacity: int
    signals: bool = False
    tokens: int = 0
    inputs: int = 0

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
            ]
        if self.tokens:
            fields += [("observed", "<i4"), ("figures", "<f4", (self.tokens, len(FIGURES)))]
        if self.inputs:
            fields += [
                ("final_inputs", "<f4", (self.inputs,)),
                ("inputs", "<f4", (self.capacity, self.inputs)),
            ]
        return np.dtype(fields)

    def map(self) -> npt.NDArray[np.void]:
        """Maps the table's file into this process."""
        mapped = np.memmap(self.path, dtype=self.layout, mode="r+", shape=(self.slots,))
        return np.asarray(mapped)  # indexing a memmap takes several times as long


@cache
def _mapped(address: TableAddress) -> npt.NDArray[np.void]:
    return address.map()


class Readings:
    """One slot, as the worker writes it."""

    def __init__(self, address: TableAddress, slot: int, ticket: int) -> None:
        self.table = _mapped(address)
        self.place = slot, ticket
        self._row = self.table[slot]

    @property
    def wanted(self) -> bool:
        """Whether the slot still belongs to the request."""
        return bool(self._row["ticket"] == self.place[1])

    def add(
        self,
        number: int,
        confidence: float,
        signals: Sequence[float] = (),
        inputs: Inputs | None = None,
    ) -> None:
        """Reports the reading at checkpoint `number`, counted from 1; a repeat replaces it."""
        if self.wanted:
            self._row["confidence"][number - 1] = confidence
            if signals:
                self._row["signals"][number - 1] = signals
            if inputs is not None:
                self._row["inputs"][number - 1] = inputs
            self._row["count"] = number

    def finish(
        self,
        tokens: int,
        confidence: float,
        signals: Sequence[float] = (),
        inputs: Inputs | None = None,
    ) -> None:
        """Reports c_end, read after `tokens` reasoning tokens."""
        if self.wanted:
            self._row["final_tokens"] = tokens
            self._row["final_confidence"] = confidence
            if signals:
                self._row["final_signals"] = signals
            if inputs is not None:
                self._row["final_inputs"] = inputs
            self._row["finished"] = 1

    def figures(self, start: int, end: int) -> Figures:
        """The figures of some of the rollout's tokens."""
        figures_TF: Figures = self._row["figures"][start:end]
        return figures_TF


def note_figures(requests: Sequence[Readings], tokens: Sequence[int], figures_NF: Figures) -> None:
    """Keeps the figures of one new token for each of these requests of one engine.

    Args:
        requests: the slots of one table.
        tokens: of each, with the new one.
        figures_NF: of the new tokens.
    """
    rows = requests[0].table
    slots, tickets = np.array([one.place for one in requests]).T
    lengths = np.array(tokens)
    wanted = rows["ticket"][slots] == tickets
    if not wanted.all():
        slots, lengths, figures_NF = slots[wanted], lengths[wanted], figures_NF[wanted]
    rows["figures"][slots, lengths - 1] = figures_NF
    rows["observed"][slots] = lengths


class Slot:
    """One slot, as the front end reads it for one request."""

    def __init__(self, row: np.void, number: int, ticket: int, interval: int) -> None:
        self.number, self.ticket = number, ticket
        self._row, self._interval, self._taken = row, interval, 0
        names = row.dtype.names or ()
        self._signals, self._tokens = "signals" in names, "figures" in names
        self._inputs = "inputs" in names
        row["count"], row["finished"] = 0, 0
        if self._signals:
            row["final_signals"] = math.nan
        if self._tokens:
            row["observed"] = 0
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
                inputs=self._row["inputs"][index].copy() if self._inputs else None,
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
            inputs=self._row["final_inputs"].copy() if self._inputs else None,
        )

    def token_signals(self, tokens: int) -> TokenSignals | None:
        """The token signals after `tokens` tokens; None if the table does not hold them."""
        if not self._signals or self._row["observed"] < tokens:
            return None
        figures = TokenFigures(window_of(self._interval))
        figures.extend(self._row["figures"][:tokens])
        return figures.read()

    def statistics(self, tokens: int) -> Inputs | None:
        """The `STATISTICS` after `tokens` tokens; None if the table does not hold them."""
        if not self._tokens or self._row["observed"] < tokens:
            return None
        return TokenStatistics().read(self._row["figures"][:tokens])


def named(signals: Iterable[float]) -> dict[str, float]:
    """Signals by name, without those that the engine cannot read (NaN)."""
    return {
        name.value: float(value)
        for name, value in zip(Signal, signals, strict=True)
        if not math.isnan(value)
    }


def _folder_for(size: int) -> Path | None:
    """Shared memory if it holds `size` bytes, else the folder for temporary files.

    A write into shared memory that is full kills the process.
    """
    fits = _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= size
    return _SHARED_MEMORY if fits else None


class ReadingsTable:
    """The front end's table. It hands out slots; while all are taken, callers wait."""

    def __init__(
        self,
        slots: int,
        capacity: int,
        *,
        signals: bool = False,
        tokens: int = 0,
        inputs: int = 0,
    ) -> None:
        self.address = TableAddress("", slots, max(capacity, 1), signals, tokens, inputs)
        size = slots * self.address.layout.itemsize
        handle, path = tempfile.mkstemp(prefix="rlcm-readings-", dir=_folder_for(size))
        self.address = replace(self.address, path=path)
        os.ftruncate(handle, size)
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
        return Slot(self._rows[number], number, next(self._tickets), interval)

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
