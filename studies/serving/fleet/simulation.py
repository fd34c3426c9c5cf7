"""Replicas that share an engine among samples, questions that queue, and a router before them.

An engine computes one token of every running sample in a step, so samples share it evenly: each has
1 / s(b) tokens a second while b of them run and a step takes s(b). A replica's clock counts the
tokens that each of its samples has been given; one of T tokens that begins at c ends at c + T.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

import numpy as np

from studies.serving.fleet.work import Work

StepSeconds = Callable[[int], float]
"""Seconds of an engine's step with so many running samples."""


class Router(StrEnum):
    """How a router chooses a replica."""

    IN_TURN = "in turn"
    LEAST_SEEN = "least waiting, seen every 5 s"
    """By the metrics that it has last scraped, and what it has sent since."""
    LEAST = "least waiting, seen at once"


SCRAPED_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replicas, and how questions come to them.

    Attributes:
        replicas: their number.
        max_running: questions in one engine at a time; others wait in the replica's queue.
        step_seconds: of one engine.
        router: before them.
        rate: questions a second, at random times (Poisson).
    """

    replicas: int
    max_running: int
    step_seconds: StepSeconds
    router: Router
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """Seconds of each question, from its arrival to its end, and the part of them in a queue."""

    seconds_Q: np.ndarray
    queued_Q: np.ndarray


def simulate_fleet(fleet: Fleet, work: Work, questions: int, rng: np.random.Generator) -> Result:
    """Sends so many questions, drawn with replacement, and waits for the last."""
    arrive_Q = np.cumsum(rng.exponential(1 / fleet.rate, questions))
    tokens_QN = work.tokens_QN[rng.integers(0, len(work.tokens_QN), questions)]
    replicas = [_Replica(fleet, number) for number in range(fleet.replicas)]
    choose = _Chooser(fleet.router, replicas)
    done = _Done(np.empty(questions), np.empty(questions))
    calendar: list[tuple[float, int]] = []

    def run_until(now: float) -> None:
        while calendar and calendar[0][0] <= now:
            at, number = heapq.heappop(calendar)
            replica = replicas[number]
            if at != replica.next_end:  # a change since then has moved it
                continue
            replica.end_sample(at, done)
            if replica.samples:
                heapq.heappush(calendar, (replica.next_end, number))

    for question in range(questions):
        now = float(arrive_Q[question])
        run_until(now)
        replica = replicas[choose(now)]
        replica.ask(now, question, tokens_QN[question].tolist())
        heapq.heappush(calendar, (replica.next_end, replica.number))
    run_until(np.inf)
    return Result(done.ended_Q - arrive_Q, done.began_Q - arrive_Q)


@dataclass(frozen=True, slots=True, eq=False)
class _Done:
    began_Q: np.ndarray
    ended_Q: np.ndarray


@dataclass(slots=True, eq=False)
class _Replica:
    fleet: Fleet
    number: int
    now: float = 0.0
    clock: float = 0.0
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    """Running ones: the clock at which each ends, a number to break ties, its question."""
    left: dict[int, int] = field(default_factory=dict)
    """Running samples of each running question."""
    queue: deque[tuple[int, list[int]]] = field(default_factory=deque)
    began: dict[int, float] = field(default_factory=dict)
    ties: count[int] = field(default_factory=count)

    @property
    def next_end(self) -> float:
        """When the next sample ends, if nothing comes before."""
        if not self.samples:
            return np.inf
        steps = self.samples[0][0] - self.clock
        return self.now + steps * self.fleet.step_seconds(len(self.samples))

    @property
    def asked(self) -> int:
        """Questions that run and wait."""
        return len(self.left) + len(self.queue)

    def ask(self, now: float, question: int, tokens: list[int]) -> None:
        """A question arrives."""
        self._advance(now)
        self.queue.append((question, tokens))
        self._begin()

    def end_sample(self, now: float, done: _Done) -> None:
        """The next sample ends, and maybe its question."""
        clock, _, question = heapq.heappop(self.samples)
        self.now, self.clock = now, clock
        self.left[question] -= 1
        if self.left[question] == 0:
            del self.left[question]
            done.began_Q[question], done.ended_Q[question] = self.began.pop(question), now
            self._begin()

    def _advance(self, now: float) -> None:
        if self.samples:
            self.clock += (now - self.now) / self.fleet.step_seconds(len(self.samples))
        self.now = now

    def _begin(self) -> None:
        while self.queue and len(self.left) < self.fleet.max_running:
            question, tokens = self.queue.popleft()
            self.left[question], self.began[question] = len(tokens), self.now
            for own in tokens:
                heapq.heappush(self.samples, (self.clock + own, next(self.ties), question))


class _Chooser:
    """The router: the number of the replica that gets the next question."""

    def __init__(self, router: Router, replicas: Sequence[_Replica]) -> None:
        self._router = router
        self._replicas = replicas
        self._turns = count()
        self._seen = np.zeros(len(replicas))
        self._scraped = -np.inf

    def __call__(self, now: float) -> int:
        if self._router is Router.IN_TURN:
            return next(self._turns) % len(self._replicas)
        if self._router is Router.LEAST or now - self._scraped >= SCRAPED_EVERY:
            self._seen = np.array([float(replica.asked) for replica in self._replicas])
            self._scraped = now
        chosen = int(self._seen.argmin())
        self._seen[chosen] += 1
        return chosen
