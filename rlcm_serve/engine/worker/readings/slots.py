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
from uuid import uuid4

import numpy as np

from rlcm_serve.core import Reading, Signal
from rlcm_serve.engine.worker.readings.fetching import Ask, Fetcher
from rlcm_serve.engine.worker.readings.parcels import Wanted
from rlcm_serve.engine.worker.readings.table import Inputs, TableAddress, claim
from rlcm_serve.engine.worker.signals import TokenFigures, TokenSignals, window_of
from rlcm_serve.engine.worker.statistics import TokenStatistics
from rlcm_serve.errors import EngineDead

_SHARED_MEMORY = Path("/dev/shm")


class Slot:
    """One slot, as the front end reads it for one request.

    The rollout may have `start` tokens from before the request, which the worker does not count.
    """

    def __init__(
        self,
        row: np.void,
        number: int,
        ticket: int,
        interval: int,
        fetcher: Fetcher | None = None,
        *,
        start: int = 0,
    ) -> None:
        self.number, self.ticket = number, ticket
        self._row, self._interval, self._taken = row, interval, 0
        self._start = start
        self._fetcher = fetcher
        names = row.dtype.names or ()
        self._signals, self._tokens = "signals" in names, "figures" in names
        self._inputs, self._prompt = "inputs" in names, "prompt" in names
        claim(row, ticket)

    async def catch_up(self, received: int, *, end: bool = False, figures: bool = False) -> None:
        """Returns when the slot has what the worker had written before it sent its last output.

        Takes no time where memory is shared. Otherwise, the worker is asked only if something new
        is due, so that most outputs cost nothing.

        Args:
            received: tokens of the request.
            end: whether the final reading is due.
            figures: whether the figures of all tokens are needed.

        Raises:
            EngineDead: the engine died before it answered.
        """
        if self._fetcher is None:
            return
        prompt = self._prompt and received > 0 and not self._row["prompted"]
        due = max(received - 1, 0) // self._interval > self._taken
        if due or prompt or end or (figures and self._tokens):
            await self._fetcher.fetch(Wanted(self.number, self.ticket, self._taken, figures))

    def new(self, received: int) -> list[Reading]:
        """Readings settled after `received` tokens of the request and not returned before.

        A reading after t tokens is settled when token t + 1 arrives. Until then, a chunked or
        resumed prefill may read that length again.
        """
        settled = min(int(self._row["count"]), max(received - 1, 0) // self._interval)
        fresh = [
            Reading(
                self._start + (index + 1) * self._interval,
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
        read = self._start + int(self._row["final_tokens"])
        if not self._row["finished"] or tokens not in (None, read):
            return None
        return Reading(
            read,
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
        """The token signals after `tokens` tokens; None if the table does not hold them.

        They look back to the first token of the request.
        """
        own = tokens - self._start
        if not self._signals or self._row["observed"] < own:
            return None
        figures = TokenFigures(window_of(self._interval))
        figures.extend(self._row["figures"][:own])
        return figures.read()

    def statistics(self, tokens: int) -> Inputs | None:
        """The `STATISTICS` after `tokens` tokens, as of `token_signals`."""
        own = tokens - self._start
        if not self._tokens or self._row["observed"] < own:
            return None
        return TokenStatistics().read(self._row["figures"][:own])


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


def _new_file(address: TableAddress) -> str:
    """The path of a new file with room for the table."""
    size = address.slots * address.layout.itemsize
    handle, path = tempfile.mkstemp(prefix="rlcm-readings-", dir=_folder_for(size))
    os.ftruncate(handle, size)
    os.close(handle)
    return path


class ReadingsTable:
    """The front end's table. It hands out slots; while all are taken, callers wait.

    With `ask`, the workers share no memory with the front end and are asked for their readings.
    """

    def __init__(
        self,
        slots: int,
        capacity: int,
        *,
        signals: bool = False,
        tokens: int = 0,
        inputs: int = 0,
        prompt: int = 0,
        ask: Ask | None = None,
    ) -> None:
        name = f"rlcm-readings-{uuid4().hex}"
        self.address = TableAddress(
            name, slots, max(capacity, 1), signals, tokens, inputs, prompt, shared=ask is None
        )
        if self.address.shared:
            self.address = replace(self.address, path=_new_file(self.address))
        self._rows = self.address.rows()
        self._fetcher = None if ask is None else Fetcher(self._rows, ask)
        self._tickets = itertools.count(1)
        self._closed = False
        self._free: asyncio.Queue[int | None] = asyncio.Queue()  # None when closed
        for slot in range(slots):
            self._free.put_nowait(slot)

    async def acquire(self, interval: int, *, start: int = 0) -> Slot:
        """Waits for a free slot, and clears it; for `start` see `Slot`.

        Raises:
            EngineDead: the table is closed, or was closed during the wait.
        """
        number = await self._free.get()
        if number is None:
            self._free.put_nowait(None)  # for the next waiting task
            raise EngineDead("the engine died before a sample could begin")
        return Slot(
            self._rows[number], number, next(self._tickets), interval, self._fetcher, start=start
        )

    def release(self, slot: Slot) -> None:
        """Takes a slot back; later writes of its request are ignored."""
        self._rows[slot.number]["ticket"] = 0
        if self._fetcher is not None:
            self._fetcher.release(slot.number, slot.ticket)
        if not self._closed:
            self._free.put_nowait(slot.number)

    def mark(self, number: int) -> None:
        """Writes a number by which workers know the table's file; 0 removes it."""
        self._rows[0]["ticket"] = number

    def unlink(self) -> None:
        """Removes the file; processes that have mapped it can still use it."""
        if self.address.shared:
            Path(self.address.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Stops handing out slots; every waiting task gets `EngineDead`."""
        self.unlink()
        if self._fetcher is not None:
            self._fetcher.close()
        if not self._closed:
            self._closed = True
            while not self._free.empty():
                self._free.get_nowait()
            self._free.put_nowait(None)
