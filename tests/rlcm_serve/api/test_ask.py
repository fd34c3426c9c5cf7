"""Events of a question on their way to one reader."""

from __future__ import annotations

import asyncio
from typing import Any

from rlcm_serve.api.ask import _BATCH, LiveSolution
from rlcm_serve.events import TokenEvent


async def test_a_slow_reader_gets_its_events_in_small_batches() -> None:
    told = [TokenEvent(0, number, "a", False) for number in range(3 * _BATCH + 1)]

    async def work(on_start: Any, on_event: Any) -> Any:
        on_start("started")
        for event in told:
            on_event(event)

    live = LiveSolution(work)
    await asyncio.wait({live._working})
    batches = [batch async for batch in live.events()]
    assert [event for batch in batches for event in batch] == told
    assert [len(batch) for batch in batches] == [_BATCH] * 3 + [1]
