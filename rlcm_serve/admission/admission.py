"""Places for questions, and the queue in front of them."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rlcm_serve.admission.fair_queue import FairQueue, Flow, Tenant
from rlcm_serve.admission.pace import WINDOW, BusyRate
from rlcm_serve.errors import NotReady, Overloaded, TooManyAtOnce

SHORTEST, LONGEST = 0.1, 300.0
"""Bounds of Retry-After, in seconds."""
UNKNOWN = 5.0
"""Lower bound of Retry-After in seconds while it is unknown how fast the queue moves."""
JITTER = 0.25
"""Largest share that is added to Retry-After, so that those refused together come back apart."""
ALONE_AFTER = 600.0
"""Seconds without questions of other keys after which one key may hold every place."""
ANYONE = Tenant()

Turn = asyncio.Future[float | None]
"""What a question is charged once it may start; None if the service stops."""


class Place:
    """The place of a running question.

    Attributes:
        charged: tokens that its tenant has been charged so far: expected ones until it has ended.
        cost: its tokens, once they are known.
    """

    def __init__(self, charged: float) -> None:
        self.charged = charged
        self.cost: float | None = None


class Admission:
    """Places for `max_running` questions at a time, and a queue of at most `max_waiting`.

    A free place goes to the tenant that has had least, and of its questions to the one that has
    waited longest; `FairQueue` says how. Belongs to one event loop.

    Args:
        max_running: questions answered at the same time.
        max_waiting: questions that may wait for a place.
        clock: monotonic time in seconds.
        share: the largest share of the places that one key may hold; at least one place.
        alone_after: seconds without questions of other keys after which one may hold all places.
        jitter: a random number in [0, 1).
    """

    def __init__(
        self,
        max_running: int,
        max_waiting: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        share: float = 1.0,
        alone_after: float = math.inf,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.running = 0
        self.closed = False
        self.on_admitted: Callable[[float], None] = _ignore
        """Called for every admitted question, with the seconds it waited."""
        self._clock, self._jitter = clock, jitter
        self._most_of_key = max(1, int(max_running * share))
        self._alone_after = alone_after
        self._latest = self._before = ("", -math.inf)  # the two tenants that asked last, and when
        self._queue: FairQueue[Turn] = FairQueue(clock)
        self._rate = BusyRate(clock)
        self._tokens = self._seconds = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Number of questions in the queue."""
        return self._queue.waiting

    @property
    def is_busy(self) -> bool:
        """Whether questions take every place."""
        return self.waiting > 0 or self.running >= self.max_running

    def running_of(self, tenant_id: str) -> int:
        """Number of a tenant's questions that are being answered."""
        return self._queue.counts(tenant_id)[0]

    def waiting_of(self, tenant_id: str) -> int:
        """Number of a tenant's questions in the queue."""
        return self._queue.counts(tenant_id)[1]

    @property
    def drain_rate(self) -> float | None:
        """Questions finished per second while all places were taken; None while unknown."""
        return self._rate.per_second

    def wait_of(self, tenant: Tenant = ANYONE) -> float:
        """Seconds until one more question of the tenant would start, if it could wait.

        From how fast its questions left the queue lately; before any did, from its place in the
        queue and how fast questions finished; before any did, from the time for which all places
        have been taken.
        """
        flow = self._queue.flow(tenant)
        seconds = max(UNKNOWN, min(self._rate.seconds, WINDOW))
        if own := flow.admitted.per_second:
            seconds = (len(flow.waiting) + 1) / own
        elif rate := self.drain_rate:
            seconds = (self._queue.ahead_of(flow) + 1) / rate
        return min(max(seconds, SHORTEST), LONGEST)

    @asynccontextmanager
    async def place(self, tenant: Tenant = ANYONE) -> AsyncIterator[Place]:
        """Waits until the question may start, and holds its place inside the context.

        Set the `cost` of the place before the context ends. Otherwise the question is charged what
        others cost in the same time, or more if more was expected.

        Raises:
            Overloaded: the queue is full, and this tenant has its share of it.
            TooManyAtOnce: this tenant has as many questions running or waiting as it may.
            NotReady: the service is stopping, or began to stop during the wait.
        """
        flow = self._queue.flow(tenant)
        arrived = self._clock()
        self._note(tenant, arrived)
        self._refuse(flow, tenant)
        place = Place(await self._enter(flow, tenant))
        began = self._clock()
        self.on_admitted(began - arrived)
        try:
            yield place
        finally:
            self._leave(flow, place, self._clock() - began)

    def close(self) -> None:
        """Stops admission: refuses waiting questions, and lets running ones finish."""
        self.closed = True
        for turn in self._queue.drain():
            if not turn.done():
                turn.set_result(None)

    async def idle(self) -> None:
        """Waits until no question runs."""
        await self._idle.wait()

    def _refuse(self, flow: Flow[Turn], tenant: Tenant) -> None:
        """Raises if the question may not even wait."""
        if self.closed:
            raise NotReady("stopping")
        if tenant.most is not None and flow.running + len(flow.waiting) >= tenant.most:
            raise TooManyAtOnce(tenant.most, self._jittered(self._next_end(flow, tenant)))
        if self._can_start(flow, tenant) or self.waiting < self.max_waiting:
            return
        crowded_out = self._queue.push_out(flow)
        if crowded_out is None:
            raise Overloaded(self.waiting, self._jittered(self.wait_of(tenant)))
        if not crowded_out.done():
            wait = self._jittered(self.wait_of(tenant))
            crowded_out.set_exception(Overloaded(self.waiting, wait))

    def _note(self, tenant: Tenant, now: float) -> None:
        """Notes who asks; a key that has become the only one may start what waits."""
        if self._latest[0] != tenant.id:
            self._before = self._latest
        self._latest = (tenant.id, now)
        self._start_waiting()

    def _can_start(self, flow: Flow[Turn], tenant: Tenant) -> bool:
        # While a place is free, only tenants wait that may not run more: `_hand_on` sees to it.
        return self.running < self.max_running and flow.running < self._most(tenant.id)

    async def _enter(self, flow: Flow[Turn], tenant: Tenant) -> float:
        """Waits for a place; returns the tokens that the question is charged for now."""
        if self._can_start(flow, tenant):
            self._take()
            return self._queue.begin(flow)
        turn: Turn = asyncio.get_running_loop().create_future()
        self._queue.push(flow, turn)
        try:
            charged = await turn
        except asyncio.CancelledError:
            self._queue.remove(flow, turn)
            told = None if turn.cancelled() or turn.exception() is not None else turn.result()
            if told is not None:
                # Got a place and was cancelled at the same moment: the next one gets the place.
                self._queue.undo(flow, told)
                self._hand_on()
            raise
        if charged is None:
            raise NotReady("stopping")
        return charged

    def _take(self) -> None:
        self.running += 1
        self._idle.clear()
        if self.running == self.max_running:
            self._rate.run()

    def _leave(self, flow: Flow[Turn], place: Place, seconds: float) -> None:
        if place.cost is None:
            pace = self._tokens / self._seconds if self._seconds else 0.0
            place.cost = max(place.charged, pace * seconds)
        else:
            self._tokens += place.cost
            self._seconds += seconds
        self._queue.end(flow, place.charged, place.cost, seconds)
        place.charged = place.cost
        self._rate.note()
        self._hand_on()

    def _hand_on(self) -> None:
        """Gives a place that has become free to the next question, or to nobody."""
        self.running -= 1
        self._start_waiting()
        if self.running < self.max_running:
            self._rate.stop()
        if not self.running:
            self._idle.set()

    def _start_waiting(self) -> None:
        """Starts waiting questions while there are places for them."""
        while self.running < self.max_running and (found := self._queue.pop(self._most)):
            flow, turn = found
            if not turn.done():
                self._take()
                turn.set_result(self._queue.begin(flow))

    def _most(self, tenant_id: str) -> int:
        """How many places the tenant may hold now."""
        if not tenant_id or self._is_alone(tenant_id):
            return self.max_running
        return self._most_of_key

    def _is_alone(self, tenant_id: str) -> bool:
        """Whether no other tenant has asked for a while."""
        _, others = self._before if self._latest[0] == tenant_id else self._latest
        return self._clock() - others > self._alone_after

    def _next_end(self, flow: Flow[Turn], tenant: Tenant) -> float:
        """Seconds until one of the tenant's questions ends, if they end at random times."""
        seconds = flow.seconds.value if flow.seconds.value is not None else UNKNOWN
        if flow.running:
            return min(max(seconds / (flow.running + 1), SHORTEST), LONGEST)
        return min(self.wait_of(tenant) + seconds, LONGEST)

    def _jittered(self, seconds: float) -> float:
        return min(seconds * (1 + JITTER * self._jitter()), LONGEST)


def _ignore(seconds: float) -> None:
    pass
