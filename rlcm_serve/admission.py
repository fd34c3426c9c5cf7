"""Admission: which questions run now, which wait, and which are refused."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rlcm_serve.errors import NotReady, Overloaded, TooManyAtOnce

WINDOW = 60.0
"""Seconds over which the drain rate is measured."""
SHORTEST, LONGEST = 1, 300
"""Bounds of Retry-After, in seconds."""
SHORTEST_WINDOW = 1.0
"""Shortest time over which the drain rate is measured, so that one finish does not inflate it."""
UNKNOWN = 5.0
"""Lower bound of Retry-After in seconds while the drain rate is unknown."""


class DrainRate:
    """How many places become free per second while all are taken.

    While a place is free, the rate of finished questions shows how many arrive, not how many the
    service can answer. So this clock stops then. The window covers the last `WINDOW` seconds in
    which all places were taken, however long ago that was.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._full_before = 0.0
        self._full_since: float | None = None
        self._finished: deque[float] = deque()

    @property
    def full_seconds(self) -> float:
        """Total seconds in which all places were taken."""
        since = self._full_since
        return self._full_before + (0.0 if since is None else self._clock() - since)

    @property
    def per_second(self) -> float | None:
        """Questions finished per second within the window; None if there were none."""
        now = self.full_seconds
        while self._finished and self._finished[0] <= now - WINDOW:
            self._finished.popleft()
        window = min(max(now, SHORTEST_WINDOW), WINDOW)
        return len(self._finished) / window if self._finished else None

    def all_taken(self) -> None:
        """Call this when the last free place is taken."""
        if self._full_since is None:
            self._full_since = self._clock()

    def one_free(self) -> None:
        """Call this when a place becomes free."""
        self._full_before = self.full_seconds
        self._full_since = None

    def finished(self) -> None:
        """Call this when a question ends."""
        if self._full_since is not None:
            self._finished.append(self.full_seconds)


class Admission:
    """Places for `max_running` questions at a time, and a queue of at most `max_waiting`.

    First come, first served: a free place goes to the question that has waited longest. Belongs to
    one event loop.

    Args:
        max_running: questions answered at the same time.
        max_waiting: questions that may wait for a place.
        clock: monotonic time in seconds.
    """

    def __init__(
        self, max_running: int, max_waiting: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.running = 0
        self.closed = False
        self.on_admitted: Callable[[float], None] = _ignore
        """Called for every admitted question, with the seconds it waited."""
        self._clock = clock
        self._queue: deque[asyncio.Future[bool]] = deque()
        self._places_of: Counter[str] = Counter()
        self._running_of: Counter[str] = Counter()
        self._rate = DrainRate(clock)
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Number of questions in the queue."""
        return len(self._queue)

    def running_of(self, caller_id: str) -> int:
        """Number of a caller's questions that are being answered."""
        return self._running_of[caller_id]

    def waiting_of(self, caller_id: str) -> int:
        """Number of a caller's questions in the queue."""
        return self._places_of[caller_id] - self._running_of[caller_id]

    @property
    def drain_rate(self) -> float | None:
        """Questions finished per second while all places were taken; None while unknown."""
        return self._rate.per_second

    @property
    def retry_after(self) -> int:
        """Seconds until all waiting questions and one more should have been admitted.

        While the rate is unknown, the time for which all places were taken is used instead.
        """
        rate = self.drain_rate
        unknown = max(UNKNOWN, min(self._rate.full_seconds, WINDOW))
        seconds = unknown if rate is None else (self.waiting + 1) / rate
        return min(max(math.ceil(seconds), SHORTEST), LONGEST)

    @asynccontextmanager
    async def place(
        self, caller_id: str | None = None, most: int | None = None
    ) -> AsyncIterator[None]:
        """Waits until the question may start, and holds its place inside the context.

        Args:
            caller_id: the caller of the question.
            most: most questions of this caller that may run or wait at the same time.

        Raises:
            Overloaded: the queue is full.
            TooManyAtOnce: this caller has `most` questions running or waiting.
            NotReady: the service is stopping, or began to stop during the wait.
        """
        self._refuse(caller_id, most)
        owner = caller_id or ""
        self._places_of[owner] += 1
        try:
            await self._enter()
            self._running_of[owner] += 1
            try:
                yield
            finally:
                self._running_of[owner] -= 1
                self._leave()
        finally:
            self._places_of[owner] -= 1
            if not self._places_of[owner]:
                del self._places_of[owner]

    def close(self) -> None:
        """Stops admission: refuses waiting questions, and lets running ones finish."""
        self.closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(False)

    async def idle(self) -> None:
        """Waits until no question runs."""
        await self._idle.wait()

    def _refuse(self, caller_id: str | None, most: int | None) -> None:
        """Raises if the question may not even wait."""
        if self.closed:
            raise NotReady("stopping")
        if caller_id is not None and most is not None and self._places_of[caller_id] >= most:
            raise TooManyAtOnce(most, self.retry_after)
        if self.running >= self.max_running and self.waiting >= self.max_waiting:
            raise Overloaded(self.waiting, self.retry_after)

    async def _enter(self) -> None:
        arrived = self._clock()
        # A place is free only if the queue is empty, because `_leave` hands places on.
        if self.running < self.max_running:
            self._take()
        elif not await self._wait():
            raise NotReady("stopping")
        self.on_admitted(self._clock() - arrived)

    async def _wait(self) -> bool:
        """Waits in the queue; returns False if the service stops in the meantime."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                if turn in self._queue:
                    self._queue.remove(turn)
            elif turn.result():
                # Got a place and was cancelled at the same moment: the next one gets the place.
                self._leave()
            raise

    def _take(self) -> None:
        self.running += 1
        self._idle.clear()
        if self.running == self.max_running:
            self._rate.all_taken()

    def _leave(self) -> None:
        """Hands the place to the first question that still waits."""
        self._rate.finished()
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self.running -= 1
        self._rate.one_free()
        if not self.running:
            self._idle.set()


def _ignore(seconds: float) -> None:
    pass
