"""Many items worked on at once, with progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

CONCURRENCY = 64
"""Items in flight: enough to fill vLLM's batch, few enough to bound what an interrupt loses."""
ROLLOUTS_AT_ONCE = 256
"""The same for single rollouts, which are smaller than questions of several samples."""

Item = TypeVar("Item")


async def run_all(
    items: Iterable[Item], work: Callable[[Item], Awaitable[None]], concurrency: int = CONCURRENCY
) -> None:
    """Runs `work` for every item, at most `concurrency` at a time.

    Raises:
        Exception: the first failure. It cancels the work in flight.
    """
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
