"""The threads that wait for a database, so that no other work waits for it.

Reads, writes and checks have threads of their own: whoever waits for a lock or a slow disk
delays only its own kind. There are fewer threads than the pool has connections, so no thread waits
for a connection.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from rlcm_serve.errors import DatabaseBusy

P = ParamSpec("P")
T = TypeVar("T")

READERS = 4
"""Threads that read; further reads wait for one of them."""


class StoreThreads:
    """Runs blocking work with a database outside the event loop. Belongs to one event loop.

    Args:
        writers: threads that write.
        wait: longest wait in seconds for one of them.
    """

    def __init__(self, writers: int, wait: float) -> None:
        self._wait = wait
        self._reading = ThreadPoolExecutor(READERS, "store-read")
        self._writing = ThreadPoolExecutor(writers, "store-write")
        self._checking = ThreadPoolExecutor(1, "store-check")
        self._places = asyncio.Semaphore(writers)
        self._running: dict[object, tuple[str, float]] = {}

    async def read(self, work: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
        """Runs work that only reads."""
        return await _run(self._reading, partial(work, *args, **named))

    async def check(self, work: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
        """Runs a read that a question or readiness waits for: short, and one at a time.

        So no question waits for the long lists that `read` makes.
        """
        return await _run(self._checking, partial(work, *args, **named))

    async def write(self, work: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
        """Runs work that may write, once earlier writes have ended.

        Cancelling the caller does not stop work that has begun.

        Raises:
            DatabaseBusy: earlier writes did not end in time; nothing was run.
        """
        try:
            async with asyncio.timeout(self._wait):
                await self._places.acquire()
        except TimeoutError:
            raise DatabaseBusy(
                f"no write could begin within {self._wait:g} s, because earlier ones have not "
                f"ended: {self._said()}; the disk is slow, or another process keeps the database "
                "locked",
                "other writes wait for the database; nothing was stored, so send the request again",
            ) from None
        writing = asyncio.ensure_future(_run(self._writing, partial(work, *args, **named)))
        self._running[writing] = getattr(work, "__qualname__", "a write"), time.monotonic()
        writing.add_done_callback(self._ended)
        return await asyncio.shield(writing)

    def close(self) -> None:
        """Ends the threads once their work is done, without waiting for them."""
        for executor in (self._reading, self._writing, self._checking):
            executor.shutdown(wait=False)

    def _said(self) -> str:
        """What runs, and for how long it has."""
        now = time.monotonic()
        return ", ".join(
            f"{name} for {now - began:.1f} s" for name, began in self._running.values()
        )

    def _ended(self, writing: asyncio.Future[T]) -> None:
        del self._running[writing]
        self._places.release()
        if not writing.cancelled():
            writing.exception()  # a cancelled caller does not read it


async def _run(executor: Executor, work: Callable[[], T]) -> T:
    context = contextvars.copy_context()  # log lines carry the id of their request
    return await asyncio.get_running_loop().run_in_executor(executor, context.run, work)
