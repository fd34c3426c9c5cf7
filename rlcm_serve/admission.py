"""Who is answered now, who waits, and who is told to come back later."""

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
"""Bounds of what a client is told to wait, seconds."""
SHORTEST_WINDOW = 1.0
"""What the drain rate is measured over at least, lest the first one to finish looks like many."""
UNKNOWN = 5.0
"""What it is told at least while nothing has finished that would tell the drain rate, seconds."""


class DrainRate:
    """How many places come free per second while all are taken.

    The time in which a place was free tells how many questions came, not how many can be answered,
    so this clock stands still then, and the window reaches back over the last `WINDOW` seconds
    in which all places were taken, however long ago that was.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._full_before = 0.0
        self._full_since: float | None = None
        self._finished: deque[float] = deque()

    @property
    def full_seconds(self) -> float:
        """For how long all places have been taken, over the whole life of the service."""
        since = self._full_since
        return self._full_before + (0.0 if since is None else self._clock() - since)

    @property
    def per_second(self) -> float | None:
        """Finished per second within the window; None if nothing was."""
        now = self.full_seconds
        while self._finished and self._finished[0] <= now - WINDOW:
            self._finished.popleft()
        window = min(max(now, SHORTEST_WINDOW), WINDOW)
        return len(self._finished) / window if self._finished else None

    def all_taken(self) -> None:
        """From now on no place is free."""
        if self._full_since is None:
            self._full_since = self._clock()

    def one_free(self) -> None:
        """From now on a place is."""
        self._full_before = self.full_seconds
        self._full_since = None

    def finished(self) -> None:
        """A place was given back."""
        if self._full_since is not None:
            self._finished.append(self.full_seconds)


class Admission:
    """Places for `max_running` questions at a time, and a queue of at most `max_waiting`.

    Places go to callers in the order in which they came: a place given back is handed to whoever
    has waited longest, and nobody overtakes the queue. Belongs to one event loop.

    Args:
        max_running: questions answered at a time.
        max_waiting: questions that may wait for a place.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, max_running: int, max_waiting: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.running = 0
        self.closed = False
        self.on_admitted: Callable[[float], None] = _ignore
        """Told of everyone who gets a place: the seconds waited for it."""
        self._clock = clock
        self._queue: deque[asyncio.Future[bool]] = deque()
        self._places_of: Counter[str] = Counter()
        self._rate = DrainRate(clock)
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._queue)

    @property
    def drain_rate(self) -> float | None:
        """Questions finished per second while all places were taken; None before any was."""
        return self._rate.per_second

    @property
    def retry_after(self) -> int:
        """Seconds until everyone who waits now, and one more, should have been served.

        The time since all places were taken stands in for a rate that is not known.
        """
        rate = self.drain_rate
        unknown = max(UNKNOWN, min(self._rate.full_seconds, WINDOW))
        seconds = unknown if rate is None else (self.waiting + 1) / rate
        return min(max(math.ceil(seconds), SHORTEST), LONGEST)

    @asynccontextmanager
    async def place(
        self, caller_id: str | None = None, most: int | None = None
    ) -> AsyncIterator[None]:
        """Waits for a place, and holds it for as long as the context lasts.

        Args:
            caller_id: whose question this is.
            most: how many of this caller's questions may run or wait at a time.

        Raises:
            Overloaded: the queue is full.
            TooManyAtOnce: this caller has `most` questions running or waiting.
            NotReady: the service is stopping; also raised for those who wait when it begins to.
        """
        self._refuse(caller_id, most)
        owner = caller_id or ""
        self._places_of[owner] += 1
        try:
            await self._enter()
            try:
                yield
            finally:
                self._leave()
        finally:
            self._places_of[owner] -= 1
            if not self._places_of[owner]:
                del self._places_of[owner]

    def close(self) -> None:
        """Admits nobody any more; those who wait are refused, those who run are let finish."""
        self.closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(False)

    async def idle(self) -> None:
        """Returns once nobody holds a place."""
        await self._idle.wait()

    def _refuse(self, caller_id: str | None, most: int | None) -> None:
        """Raises if this caller cannot even wait."""
        if self.closed:
            raise NotReady("stopping")
        if caller_id is not None and most is not None and self._places_of[caller_id] >= most:
            raise TooManyAtOnce(most, self.retry_after)
        if self.running >= self.max_running and self.waiting >= self.max_waiting:
            raise Overloaded(self.waiting, self.retry_after)

    async def _enter(self) -> None:
        arrived = self._clock()
        # A place is free only while nobody waits, because each one given back is handed on.
        if self.running < self.max_running:
            self._take()
        elif not await self._wait():
            raise NotReady("stopping")
        self.on_admitted(self._clock() - arrived)

    async def _wait(self) -> bool:
        """Whether this caller was handed a place; False if the service stopped meanwhile."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                if turn in self._queue:
                    self._queue.remove(turn)
            elif turn.result():
                # Handed a place and cancelled in the same breath: the next one gets it.
                self._leave()
            raise

    def _take(self) -> None:
        self.running += 1
        self._idle.clear()
        if self.running == self.max_running:
            self._rate.all_taken()

    def _leave(self) -> None:
        """Hands the place to the first who still waits for one."""
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
