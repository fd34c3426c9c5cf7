"""The table of readings: its layout, and how vLLM's worker writes it.

Where tokens are tracked, the file also holds the figures of every token (`statistics`). All ranks
of a model write the same values.

Every request in flight has one slot. Where all workers run on the front end's host, they map one
file. Elsewhere each worker has a table in its own memory, whose slots are claimed by the requests
that reach it, and the front end fetches what is new (`fetching`). An aborted request may stay in
the batch for one more step. Its ticket keeps it from writing into a slot that belongs to another
request by then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rlcm_serve.core import Signal
from rlcm_serve.engine.worker.statistics import FIGURES, Figures

Inputs = npt.NDArray[np.float32]
"""What a probe reads: the state (H), then the `STATISTICS` of the tokens; shape (H + 12,)."""


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Name, size and layout of the table; sent with every request.

    Attributes:
        path: the table's file; a name that no other table has, if it is not shared.
        slots: requests that can be in flight.
        capacity: readings per slot.
        signals: whether a reading holds all signals, which needs `tokens`.
        tokens: most tokens of a rollout whose figures are kept; 0 if none are.
        inputs: length of a probe's inputs in a reading; 0 if they are not recorded.
        prompt: length of the state at the last token of each prompt; 0 if it is not kept.
        shared: whether workers and front end share the file; else each worker has its own table.
    """

    path: str
    slots: int
    capacity: int
    signals: bool = False
    tokens: int = 0
    inputs: int = 0
    prompt: int = 0
    shared: bool = True

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
        if self.prompt:
            fields += [("prompted", "<i4"), ("prompt", "<f4", (self.prompt,))]
        return np.dtype(fields, align=True)

    def rows(self) -> npt.NDArray[np.void]:
        """The table in this process: its file, mapped, or a new table in memory.

        Raises:
            OSError: the file is not there.
        """
        if not self.shared:
            return np.zeros(self.slots, self.layout)  # of which untouched slots take no memory
        mapped = np.memmap(self.path, dtype=self.layout, mode="r+", shape=(self.slots,))
        return np.asarray(mapped)  # indexing a memmap takes several times as long


@cache
def rows_of(address: TableAddress) -> npt.NDArray[np.void]:
    """The one table with this address in a worker's process; see `TableAddress.rows`."""
    return address.rows()


def claim(row: np.void, ticket: int) -> None:
    """Clears a slot for the request with this ticket."""
    names = row.dtype.names or ()
    for name in ("count", "finished", "observed", "prompted"):
        if name in names:
            row[name] = 0
    if "final_signals" in names:
        row["final_signals"] = math.nan
    row["ticket"] = ticket


class Readings:
    """One slot, as the worker writes it."""

    def __init__(self, address: TableAddress, slot: int, ticket: int) -> None:
        self.table = rows_of(address)
        self.slot, self.ticket = slot, ticket
        self._row = self.table[slot]
        # Tickets grow, so an earlier request cannot take the slot back.
        if not address.shared and self._row["ticket"] < ticket:
            claim(self._row, ticket)

    @property
    def wanted(self) -> bool:
        """Whether the slot still belongs to the request."""
        return bool(self._row["ticket"] == self.ticket)

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

    def keep(self, tokens: int, interval: int) -> None:
        """Forgets readings after more than `tokens` tokens: they were taken at refused drafts."""
        if self.wanted:
            self._row["count"] = min(self._row["count"], tokens // interval)
            if self._row["final_tokens"] > tokens:
                self._row["finished"] = 0

    def note_prompt(self, state_H: Inputs) -> None:
        """Reports the state at the prompt's last token; a repeat replaces it."""
        if self.wanted:
            self._row["prompt"] = state_H
            self._row["prompted"] = 1

    def figures(self, start: int, end: int) -> Figures:
        """The figures of some of the rollout's tokens."""
        figures_TF: Figures = self._row["figures"][start:end]
        return figures_TF


class Places(NamedTuple):
    """The slots of several requests (N) in one table, and the table's fields of tokens.

    Attributes:
        slots_N: of the requests.
        tickets_N: of the requests.
        ticket_S: of all slots.
        figures_STF: of the tokens of all slots.
        observed_S: how many tokens each slot has.
    """

    slots_N: npt.NDArray[np.int64]
    tickets_N: npt.NDArray[np.int64]
    ticket_S: npt.NDArray[np.int64]
    figures_STF: npt.NDArray[np.float32]
    observed_S: npt.NDArray[np.int32]

    @classmethod
    def of(cls, requests: Sequence[Readings]) -> Self:
        """The places of these requests."""
        table = requests[0].table
        return cls(
            np.array([one.slot for one in requests]),
            np.array([one.ticket for one in requests]),
            *(table[field] for field in ("ticket", "figures", "observed")),
        )


def note_figures(places: Places, lengths: Sequence[int], figures_NF: Figures) -> None:
    """Keeps the figures of one new token for each of these requests.

    Args:
        places: of the requests.
        lengths: tokens of each, with the new one.
        figures_NF: of the new tokens.
    """
    wanted = places.ticket_S[places.slots_N] == places.tickets_N
    slots, tokens = places.slots_N[wanted], np.array(lengths)[wanted]
    places.figures_STF[slots, tokens - 1] = figures_NF[wanted]
    places.observed_S[slots] = tokens
