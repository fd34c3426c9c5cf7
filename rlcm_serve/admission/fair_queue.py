"""A queue that is fair between keys, in what they get and in the room they take.

What a key gets is counted in tokens, on a virtual clock of its own that runs slower the larger its
weight is. The next free place goes to the waiting key whose clock shows the least: start-time fair
queueing (Goyal, Vin, Cheng 1996, section 2), which for language models is the virtual token counter
(Sheng et al. 2024, arXiv 2401.00588, algorithm 2). A key that had nothing waiting is moved forward
to the clock of whoever started last, so nobody saves up for a burst. The tokens of a question are
known only when it ends. Until then its key is charged what its questions cost on average.

If the queue is full, the newest question of the key with the most gives way to one of a key that
has fewer (Demers, Keshav, Shenker 1989, section 2.2).
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rlcm_serve.admission.pace import BusyRate, RunningMean

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Tenant:
    """The caller of a question.

    Attributes:
        id: of its key; empty without keys.
        weight: share of a busy service relative to others.
        most: most questions of this caller that may run or wait at the same time.
    """

    id: str = ""
    weight: float = 1.0
    most: int | None = None


@dataclass(slots=True, eq=False)
class Flow(Generic[Item]):
    """The questions of one tenant.

    Attributes:
        weight: of the tenant.
        admitted: how fast its questions leave the queue while any wait.
        waiting: with their numbers of arrival, the oldest first.
        running: how many run.
        counter: the tenant's virtual clock, in tokens by weight.
        cost: mean tokens of a question.
        seconds: mean seconds for which a question runs.
    """

    weight: float
    admitted: BusyRate
    waiting: deque[tuple[int, Item]] = field(default_factory=deque)
    running: int = 0
    counter: float = 0.0
    cost: RunningMean = field(default_factory=RunningMean)
    seconds: RunningMean = field(default_factory=RunningMean)

    @property
    def load(self) -> float:
        """Number of questions that run or wait, by weight."""
        return (self.running + len(self.waiting)) / self.weight


class FairQueue(Generic[Item]):
    """The questions that wait, by tenant.

    Args:
        clock: time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._flows: dict[str, Flow[Item]] = {}
        self._numbers = itertools.count()
        self._virtual = 0.0
        self._cost = RunningMean()
        self.waiting = 0
        """Number of waiting questions of all tenants."""

    def flow(self, tenant: Tenant) -> Flow[Item]:
        """The questions of a tenant."""
        if tenant.id not in self._flows:
            self._flows[tenant.id] = Flow(tenant.weight, BusyRate(self._clock))
        return self._flows[tenant.id]

    def counts(self, tenant_id: str) -> tuple[int, int]:
        """Number of a tenant's questions that run, and that wait."""
        flow = self._flows.get(tenant_id)
        return (0, 0) if flow is None else (flow.running, len(flow.waiting))

    def push(self, flow: Flow[Item], item: Item) -> None:
        """Adds an item behind those of the same tenant."""
        self._join(flow)
        flow.waiting.append((next(self._numbers), item))
        flow.admitted.run()
        self.waiting += 1

    def pop(self, most_running: Callable[[str], int]) -> tuple[Flow[Item], Item] | None:
        """Takes the next item whose tenant may run one more; None if there is none."""
        flows = [
            flow
            for name, flow in self._flows.items()
            if flow.waiting and flow.running < most_running(name)
        ]
        if not flows:
            return None
        flow = min(flows, key=lambda one: (one.counter, one.waiting[0]))
        _, item = flow.waiting.popleft()
        flow.admitted.note()
        self._shrunk(flow)
        return flow, item

    def remove(self, flow: Flow[Item], item: Item) -> None:
        """Removes an item, if it still waits."""
        for one in flow.waiting:
            if one[1] is item:
                flow.waiting.remove(one)
                self._shrunk(flow)
                return

    def push_out(self, newcomer: Flow[Item]) -> Item | None:
        """Removes the newest item of the tenant with the most questions that run or wait.

        Returns None if the newcomer's tenant would then have the most, or nobody waits.
        """
        crowd = [flow for flow in self._flows.values() if flow.waiting]
        largest = max(crowd, key=lambda one: one.load, default=newcomer)
        if newcomer.load + 1 / newcomer.weight >= largest.load:
            return None
        _, item = largest.waiting.pop()
        self._shrunk(largest)
        return item

    def drain(self) -> Iterator[Item]:
        """Removes all items."""
        for flow in self._flows.values():
            while flow.waiting:
                _, item = flow.waiting.popleft()
                self._shrunk(flow)
                yield item

    def begin(self, flow: Flow[Item]) -> float:
        """A question of the tenant starts; returns the tokens that it is charged until it ends."""
        self._join(flow)
        self._virtual = max(self._virtual, flow.counter)
        charged = self._expected(flow)
        flow.counter += charged / flow.weight
        flow.running += 1
        return charged

    def undo(self, flow: Flow[Item], charged: float) -> None:
        """Takes `begin` back: the question does not start after all."""
        flow.counter -= charged / flow.weight
        flow.running -= 1

    def end(self, flow: Flow[Item], charged: float, cost: float, seconds: float) -> None:
        """The question has ended after `seconds`; it is charged `cost` tokens instead."""
        flow.counter += (cost - charged) / flow.weight
        flow.running -= 1
        if cost > 0:  # others were refused at once
            flow.seconds.add(seconds)
            flow.cost.add(cost)
            self._cost.add(cost)

    def ahead_of(self, flow: Flow[Item]) -> int:
        """How many waiting questions would start before one more of this tenant."""
        join = flow.counter if flow.waiting else max(flow.counter, self._virtual)
        start = join + len(flow.waiting) * self._expected(flow) / flow.weight
        others = (one for one in self._flows.values() if one is not flow and one.waiting)
        return len(flow.waiting) + sum(self._started_by(one, start) for one in others)

    def _started_by(self, flow: Flow[Item], start: float) -> int:
        """How many waiting questions of the tenant start before this virtual time."""
        if flow.counter > start:
            return 0
        steps = (start - flow.counter) * flow.weight / self._expected(flow)
        return min(len(flow.waiting), math.floor(steps) + 1)

    def _join(self, flow: Flow[Item]) -> None:
        if not flow.waiting:
            flow.counter = max(flow.counter, self._virtual)

    def _expected(self, flow: Flow[Item]) -> float:
        """Tokens of the tenant's next question; at least one, so that clocks never stand."""
        known = flow.cost.value if flow.cost.value is not None else self._cost.value
        return max(known or 1.0, 1.0)

    def _shrunk(self, flow: Flow[Item]) -> None:
        self.waiting -= 1
        if not flow.waiting:
            flow.admitted.stop()
