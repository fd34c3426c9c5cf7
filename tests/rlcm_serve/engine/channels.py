"""Tables of readings on both channels: shared memory, and fetched from the worker's own memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rlcm_serve.core import Reading
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.extension import WorkerExtension
from rlcm_serve.engine.worker.readings.fetching import Ticket
from rlcm_serve.engine.worker.readings.parcels import Parcel, Wanted
from rlcm_serve.engine.worker.readings.slots import ReadingsTable, Slot


class FetchedTable(ReadingsTable):
    """A table that shares no memory with its worker, which runs in this process."""

    def __init__(self, slots: int, capacity: int, **layout: Any) -> None:
        super().__init__(slots, capacity, **layout, ask=self._ask_worker)

    async def _ask_worker(
        self, wanted: Sequence[Wanted], released: Sequence[Ticket]
    ) -> list[Parcel | None]:
        worker = WorkerExtension()
        return worker.rlcm_fetch_readings(asdict(self.address), wanted, released)


async def front_end(engine: VllmEngine, channel: str) -> VllmEngine:
    """The engine, or another front end of its vLLM, which fetches its readings through vLLM."""
    if channel == "shared":
        return engine
    assert engine.running is not None
    settings = replace(engine.settings, vllm_arguments=(), shares_memory=False)
    other = VllmEngine(settings, engine.running.llm)
    await other.start()
    return other


CHANNELS = {"shared": ReadingsTable, "fetched": FetchedTable}


def caught_up(slot: Slot | None, received: int = 1) -> Slot:
    """The slot, with all that the worker has written so far."""
    assert slot is not None
    asyncio.run(slot.catch_up(received, end=True, figures=True))
    return slot


def new(slot: Slot | None, received: int) -> list[Reading]:
    """The slot's new readings."""
    return caught_up(slot, received).new(received)


def final(slot: Slot | None) -> Reading | None:
    """The slot's final reading."""
    return caught_up(slot).final()
