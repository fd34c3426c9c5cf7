"""Threads for work on requests that would hold the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from rlcm_serve.errors import Overloaded

SMALL = 4096
"""Work on no more characters takes about a millisecond, and is done at once."""
THREADS = 2
"""More would only make the event loop wait longer for its turn: Python runs one at a time."""
MOST_WAITING = 256
"""Pieces of work that may wait; the body of each is in memory."""
MOST_OF_ONE = 128
"""Of these, those of one caller."""
RETRY_AFTER = 5
"""Seconds until a caller may try again if too many wait."""

Result = TypeVar("Result")


class Workers:
    """A few threads, and a queue that is fair: each caller has one piece of work in it at a time.

    So the large bodies of one caller wait for each other, not the callers for one of them. Belongs
    to one event loop.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rlcm-worker")
        self._turns: WeakValueDictionary[str | None, asyncio.Lock] = WeakValueDictionary()
        self._waiting: Counter[str | None] = Counter()

    async def run(
        self, caller_id: str | None, size: int, work: Callable[..., Result], *args: object
    ) -> Result:
        """The result of `work`, which a thread does unless its size is small.

        Args:
            caller_id: who waits for the result.
            size: of what `work` reads, in characters.
            work: may run in any thread, and takes time in proportion to its size.
            args: of `work`.

        Raises:
            Overloaded: too many pieces of work wait already.
        """
        if size <= SMALL:
            return work(*args)
        turn = self._turns.setdefault(caller_id, asyncio.Lock())
        await self._wait(caller_id, turn)
        job = asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        # A cancelled caller does not end the thread: the turn is over when the thread is.
        job.add_done_callback(lambda done: _over(done, turn))
        return await asyncio.shield(job)

    def close(self) -> None:
        """Takes no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, caller_id: str | None, turn: asyncio.Lock) -> None:
        waiting = self._waiting.total()
        if waiting >= MOST_WAITING or self._waiting[caller_id] >= MOST_OF_ONE:
            raise Overloaded(waiting, RETRY_AFTER)
        self._waiting[caller_id] += 1
        try:
            await turn.acquire()
        finally:
            self._waiting[caller_id] -= 1
            if not self._waiting[caller_id]:
                del self._waiting[caller_id]


def _over(job: asyncio.Future[Result], turn: asyncio.Lock) -> None:
    turn.release()
    if not job.cancelled():
        job.exception()  # nobody else reads it if the caller has left
