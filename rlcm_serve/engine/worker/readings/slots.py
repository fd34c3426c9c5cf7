"""The table of readings in the front end: slots for requests, and what is written there."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from rlcm_serve.core import Reading, Signal
from rlcm_serve.engine.worker.readings.table import Inputs, TableAddress
from rlcm_serve.engine.worker.signals import TokenFigures, TokenSignals, window_of
from rlcm_serve.engine.worker.statistics import TokenStatistics
from rlcm_serve.errors import EngineDead

_SHARED_MEMORY = Path("/dev/shm")


class Slot:
    """One slot, as the front end reads it for one request."""

    def __init__(self, row: np.void, number: int, ticket: int, interval: int) -> None:
        self.number, self.ticket = number, ticket
        self._row, self._interval, self._taken = row, interval, 0
        names = row.dtype.names or ()
        self._signals, self._tokens = "signals" in names, "figures" in names
        self._inputs, self._prompt = "inputs" in names, "prompt" in names
        row["count"], row["finished"] = 0, 0
        if self._signals:
            row["final_signals"] = math.nan
        if self._tokens:
            row["observed"] = 0
        if self._prompt:
            row["prompted"] = 0
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

    def final(self, tokens: int | None = None) -> Reading | None:
        """c_end, if the worker has reported it; of a rollout of `tokens` tokens, if given.

        The worker reads the budget's last state at a draft too. If the rollout ends in the same
        step before that draft, no later step takes this reading back.
        """
        if not self._row["finished"] or tokens not in (None, int(self._row["final_tokens"])):
            return None
        return Reading(
            int(self._row["final_tokens"]),
            float(self._row["final_confidence"]),
            is_final=True,
            signals=named(self._row["final_signals"]) if self._signals else None,
            inputs=self._row["final_inputs"].copy() if self._inputs else None,
        )

    def prompt_state(self) -> Inputs | None:
        """The state at the prompt's last token; settled once the first token has arrived.

        None if it is not kept, or the worker has not reported it.
        """
        if not self._prompt or not self._row["prompted"]:
            return None
        state_H: Inputs = self._row["prompt"].copy()
        return state_H

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
        prompt: int = 0,
    ) -> None:
        self.address = TableAddress("", slots, max(capacity, 1), signals, tokens, inputs, prompt)
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
