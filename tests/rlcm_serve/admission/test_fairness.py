"""Who gets a busy service, and what those are told who do not: simulated on its own clock."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.errors import Overloaded

pytestmark = pytest.mark.anyio

Draw = Callable[[random.Random], float]


def about(mean: float) -> Draw:
    return lambda drawn: mean * drawn.uniform(0.5, 1.5)


def exponential(mean: float) -> Draw:
    return lambda drawn: drawn.expovariate(1 / mean)


class Caller:
    """A tenant that keeps `open_at_once` questions open, each of random seconds and tokens."""

    def __init__(
        self,
        name: str,
        open_at_once: int,
        seconds: Draw,
        *,
        tokens: Draw | None = None,
        weight: float = 1.0,
        pause: float = 0.0,
    ) -> None:
        self.tenant = Tenant(name, weight)
        self.open_at_once = open_at_once
        self.seconds = seconds
        self.tokens = tokens or (lambda drawn: 100 * seconds(drawn))
        self.pause = pause
        """Mean seconds between an answer and the next question."""


class World:
    """Callers that ask again whenever they are answered or refused."""

    def __init__(self, admission: Admission, now: list[float], seed: int) -> None:
        self.admission, self.now = admission, now
        self.random = random.Random(seed)
        self.events: list[tuple[float, int, asyncio.Event]] = []
        self.numbers = itertools.count()
        self.answered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.told: dict[str, list[tuple[float, int, float]]] = defaultdict(list)
        self.starts: dict[str, list[float]] = defaultdict(list)

    async def sleep(self, seconds: float) -> None:
        """Waits on the world's clock."""
        event = asyncio.Event()
        heapq.heappush(self.events, (self.now[0] + seconds, next(self.numbers), event))
        await event.wait()

    async def ask(self, caller: Caller) -> None:
        name = caller.tenant.id
        while True:
            await self.sleep(self.random.expovariate(1 / caller.pause) if caller.pause else 0.01)
            arrived = self.now[0]
            try:
                async with self.admission.place(caller.tenant) as place:
                    self.waits[name].append(self.now[0] - arrived)
                    self.starts[name].append(self.now[0])
                    await self.sleep(caller.seconds(self.random))
                    place.cost = caller.tokens(self.random)
            except Overloaded as refusal:
                self.refused[name] += 1
                if self.now[0] == arrived:  # otherwise it was crowded out later
                    ahead = len(self.starts[name]) + self.admission.waiting_of(name)
                    self.told[name].append((arrived, ahead, refusal.retry_after))
                await self.sleep(self.random.uniform(4, 8))
            else:
                self.answered[name] += 1
                self.tokens[name] += round(place.cost or 0)

    async def run(self, callers: list[Caller], seconds: float) -> None:
        tasks = [
            asyncio.create_task(self.ask(caller))
            for caller in callers
            for _ in range(caller.open_at_once)
        ]
        await settle()
        while self.events and self.events[0][0] <= seconds:
            self.now[0], _, event = heapq.heappop(self.events)
            event.set()
            await settle()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def ratios(self, name: str) -> list[float]:
        """What refused questions were told, over the wait that they would have had.

        A refused question would have started once all of its key that waited then had started.
        """
        starts = self.starts[name]
        return [
            seconds / (starts[ahead] - at)
            for at, ahead, seconds in self.told[name]
            if ahead < len(starts)
        ]


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def world(max_running: int = 8, max_waiting: int = 32, share: float = 0.75, seed: int = 0) -> World:
    now = [1000.0]
    drawn = random.Random(seed)
    admission = Admission(
        max_running, max_waiting, lambda: now[0], share=share, jitter=drawn.random
    )
    return World(admission, now, seed)


async def test_a_greedy_key_takes_nothing_from_a_modest_one() -> None:
    seen = world()
    greedy = Caller("greedy", 60, about(4.0))
    modest = Caller("modest", 1, about(4.0), pause=2.0)
    await seen.run([greedy, modest], 1300)
    assert seen.refused["modest"] == 0
    assert seen.answered["modest"] > 40
    assert max(seen.waits["modest"]) < 6.0, "one question of others, at the longest"
    assert seen.refused["greedy"] > 300


@pytest.mark.parametrize("seed", range(3))
async def test_busy_keys_share_tokens_by_weight(seed: int) -> None:
    """Whatever they cost: the questions of one are four times as long as those of another."""
    seen = world(share=1.0, seed=seed)
    callers = [
        Caller("a", 20, about(1.0)),
        Caller("b", 20, about(4.0)),
        Caller("c", 20, exponential(2.0), weight=3.0),
    ]
    await seen.run(callers, 1600)
    a, b, c = (seen.tokens[name] for name in "abc")
    assert b / a == pytest.approx(1, rel=0.1)
    assert c / (a + b) == pytest.approx(1.5, rel=0.1)


async def test_who_asks_alone_gets_everything_and_owes_nothing_later() -> None:
    seen = world(share=1.0)
    await seen.run([Caller("a", 20, about(1.0))], 1200)
    assert seen.tokens["a"] > 0.9 * 8 * 100 * 200
    before = seen.tokens["a"]
    await seen.run([Caller("a", 20, about(1.0)), Caller("b", 20, about(1.0))], 1400)
    assert seen.tokens["a"] - before == pytest.approx(seen.tokens["b"], rel=0.1)


async def test_no_key_holds_more_than_its_share_of_the_places() -> None:
    admission = Admission(max_running=8, max_waiting=100, share=0.75)
    held = [asyncio.create_task(hold(admission, "greedy")) for _ in range(20)]
    await settle()
    assert (admission.running_of("greedy"), admission.waiting_of("greedy")) == (6, 14)
    late = [asyncio.create_task(hold(admission, "modest")) for _ in range(2)]
    await settle()
    assert admission.running_of("modest") == 2
    for task in held + late:
        task.cancel()
    await asyncio.gather(*held, *late, return_exceptions=True)
    assert (admission.running, admission.waiting) == (0, 0)


async def test_a_key_that_asks_alone_may_hold_every_place() -> None:
    now = [0.0]
    admission = Admission(8, 100, lambda: now[0], share=0.75, alone_after=600)

    async def ask(name: str, count: int) -> list[asyncio.Task[None]]:
        asked = [asyncio.create_task(hold(admission, name)) for _ in range(count)]
        await settle()
        return asked

    async def end(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    greedy = await ask("greedy", 20)
    assert admission.running_of("greedy") == 8
    modest = await ask("modest", 1)
    await end(greedy[:1])
    assert (admission.running_of("greedy"), admission.running_of("modest")) == (7, 1)
    await end([*greedy[1:8], *modest])
    assert (admission.running_of("greedy"), admission.waiting_of("greedy")) == (6, 6)
    now[0] = 601
    greedy += await ask("greedy", 1)
    assert (admission.running_of("greedy"), admission.waiting_of("greedy")) == (8, 5)
    await end(greedy)
    assert (admission.running, admission.waiting) == (0, 0)


async def test_a_full_queue_makes_room_for_a_key_that_has_less_in_it() -> None:
    admission = Admission(max_running=1, max_waiting=4)
    greedy = [asyncio.create_task(hold(admission, "greedy")) for _ in range(5)]
    await settle()
    modest = [asyncio.create_task(hold(admission, "modest")) for _ in range(4)]
    await settle()
    assert (admission.waiting_of("greedy"), admission.waiting_of("modest")) == (2, 2)
    assert [isinstance(task.exception(), Overloaded) for task in greedy[3:]] == [True, True]
    assert [isinstance(task.exception(), Overloaded) for task in modest[2:]] == [True, True]
    for task in greedy + modest:
        task.cancel()
    await asyncio.gather(*greedy, *modest, return_exceptions=True)


async def hold(admission: Admission, name: str) -> None:
    async with admission.place(Tenant(name)):
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "others",
    [
        [],
        [Caller("modest", 2, about(4.0), pause=2.0)],
        [Caller("modest", 2, exponential(2.0), pause=2.0), Caller("second", 40, about(8.0))],
    ],
    ids=["alone", "with-a-modest-key", "with-a-second-greedy-key"],
)
@pytest.mark.parametrize("seconds", [about(4.0), exponential(4.0)], ids=["even", "exponential"])
async def test_retry_after_is_near_the_true_wait(seconds: Draw, others: list[Caller]) -> None:
    seen = world()
    await seen.run([Caller("greedy", 60, seconds), *others], 1400)
    ratios = seen.ratios("greedy")
    assert len(ratios) > 200
    median = statistics.median(ratios)
    sys.stdout.write(f"told / true: median {median:.2f}, of {len(ratios)}\n")
    assert 1 / 1.5 < median < 1.5


async def test_those_refused_together_are_told_different_times() -> None:
    admission = Admission(max_running=1, max_waiting=0)
    async with admission.place(Tenant("a")):
        told = []
        for _ in range(20):
            with pytest.raises(Overloaded) as refused:
                await hold(admission, "b")
            told.append(refused.value.retry_after)
    assert len({*told}) == 20
    assert max(told) <= 1.25 * min(told)


async def test_a_question_that_is_given_up_is_charged_for_its_time() -> None:
    now = [0.0]
    admission = Admission(max_running=2, max_waiting=2, clock=lambda: now[0])
    async with admission.place(Tenant("a")) as place:
        now[0] += 10
        place.cost = 1000
    async with admission.place(Tenant("b")) as given_up:
        now[0] += 50
    assert given_up.charged == pytest.approx(5000)
