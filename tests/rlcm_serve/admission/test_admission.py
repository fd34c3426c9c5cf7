import asyncio
import random
from contextlib import suppress

import pytest

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.admission.admission import JITTER, LONGEST, UNKNOWN
from rlcm_serve.admission.pace import WINDOW
from rlcm_serve.errors import NotReady, Overloaded, TooManyAtOnce

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Visitor:
    """A task that asks for a place and holds it until it is told to leave."""

    def __init__(self, admission: Admission, caller: str = "", most: int | None = None):
        self.admitted = False
        self.tenant = caller
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._visit(admission, Tenant(caller, most=most)))

    async def _visit(self, admission: Admission, tenant: Tenant) -> None:
        async with admission.place(tenant):
            self.admitted = True
            await self.leave.wait()


async def settle() -> None:
    """Lets every task run as far as it can."""
    for _ in range(6):
        await asyncio.sleep(0)


async def visitors(admission: Admission, count: int) -> list[Visitor]:
    found = [Visitor(admission) for _ in range(count)]
    await settle()
    return found


async def dismiss(*visits: Visitor) -> None:
    for visit in visits:
        visit.leave.set()
    await asyncio.wait_for(asyncio.gather(*(visit.task for visit in visits)), 5)


async def test_places_go_to_those_who_came_first() -> None:
    admission = Admission(max_running=2, max_waiting=3)
    visits = await visitors(admission, 5)
    assert [visit.admitted for visit in visits] == [True, True, False, False, False]
    assert (admission.running, admission.waiting) == (2, 3)
    await dismiss(visits[1])
    assert [visit.admitted for visit in visits] == [True, True, True, False, False]
    await dismiss(visits[0], visits[2])
    assert all(visit.admitted for visit in visits)
    await dismiss(*visits)
    assert (admission.running, admission.waiting) == (0, 0)


async def test_it_is_busy_while_every_place_is_taken() -> None:
    admission = Admission(max_running=2, max_waiting=3)
    (first,) = await visitors(admission, 1)
    assert not admission.is_busy
    (second,) = await visitors(admission, 1)
    assert admission.is_busy
    await dismiss(first)
    assert not admission.is_busy
    await dismiss(second)


async def test_nobody_overtakes_the_queue() -> None:
    admission = Admission(max_running=1, max_waiting=2)
    first, second = await visitors(admission, 2)
    first.leave.set()
    newcomer = Visitor(admission)
    await settle()
    assert second.admitted
    assert not newcomer.admitted
    await dismiss(first, second, newcomer)


async def test_a_full_queue_refuses_with_a_time_to_come_back() -> None:
    admission = Admission(max_running=1, max_waiting=1)
    visits = await visitors(admission, 2)
    with pytest.raises(Overloaded, match="1 requests are waiting already: retry in") as refused:
        async with admission.place():
            pass
    assert UNKNOWN <= refused.value.retry_after <= UNKNOWN * (1 + JITTER)
    await dismiss(*visits)
    async with admission.place():
        assert admission.running == 1


async def test_without_a_queue_a_request_is_served_or_refused() -> None:
    admission = Admission(max_running=1, max_waiting=0)
    async with admission.place():
        with pytest.raises(Overloaded):
            async with admission.place():
                pass
    assert admission.running == 0


async def test_a_caller_has_no_more_under_way_than_it_may() -> None:
    admission = Admission(max_running=1, max_waiting=5)
    greedy = [Visitor(admission, "greedy", most=2) for _ in range(3)]
    other = Visitor(admission, "other", most=2)
    await settle()
    assert (admission.running, admission.waiting) == (1, 2)
    with pytest.raises(TooManyAtOnce, match="already has 2 questions running"):
        await greedy[2].task
    await dismiss(greedy[0])
    again = Visitor(admission, "greedy", most=2)
    await settle()
    assert not again.task.done()
    await dismiss(greedy[1], other, again)


async def test_a_caller_that_gives_up_may_ask_again() -> None:
    admission = Admission(max_running=1, max_waiting=5)
    (holder,) = await visitors(admission, 1)
    waiting = Visitor(admission, "caller", most=1)
    await settle()
    waiting.task.cancel()
    await settle()
    assert admission.waiting == 0
    again = Visitor(admission, "caller", most=1)
    await dismiss(holder)
    await dismiss(again)


async def test_an_error_gives_the_place_back() -> None:
    admission = Admission(max_running=1, max_waiting=0)
    with pytest.raises(ZeroDivisionError):
        async with admission.place(Tenant("caller", most=1)):
            _ = 1 / 0
    async with admission.place(Tenant("caller", most=1)):
        pass


async def test_closing_refuses_those_who_wait_and_lets_the_others_finish() -> None:
    admission = Admission(max_running=1, max_waiting=5)
    running, waiting = await visitors(admission, 2)
    idle = asyncio.create_task(admission.idle())
    admission.close()
    with pytest.raises(NotReady, match="stopping"):
        await waiting.task
    with pytest.raises(NotReady, match="stopping"):
        async with admission.place():
            pass
    await settle()
    assert not idle.done()
    await dismiss(running)
    await asyncio.wait_for(idle, 5)


async def test_idle_returns_at_once_while_nobody_came() -> None:
    await asyncio.wait_for(Admission(1, 1).idle(), 5)


async def test_a_place_handed_to_one_who_is_cancelled_goes_to_the_next() -> None:
    admission = Admission(max_running=1, max_waiting=5)
    async with admission.place():
        second, third = await visitors(admission, 2)
    second.task.cancel()  # it has been handed the place, and has not run since
    await settle()
    assert not second.admitted
    assert third.admitted
    await dismiss(third)
    assert (admission.running, admission.waiting) == (0, 0)


async def test_one_who_waits_is_refused_and_cancelled_in_the_same_breath() -> None:
    admission = Admission(max_running=1, max_waiting=5)
    running, waiting = await visitors(admission, 2)
    admission.close()
    waiting.task.cancel()
    await settle()
    assert waiting.task.cancelled()
    assert (admission.running, admission.waiting) == (1, 0)
    await dismiss(running)
    assert admission.running == 0


async def test_the_wait_for_a_place_is_told() -> None:
    clock, waits = Clock(), []
    admission = Admission(max_running=1, max_waiting=1, clock=clock)
    admission.on_admitted = waits.append
    first, second = await visitors(admission, 2)
    clock.now += 7
    await dismiss(first)
    await dismiss(second)
    assert waits == [0, 7]


@pytest.mark.parametrize("seed", range(60))
async def test_no_schedule_loses_a_wake_up(seed: int) -> None:
    """Visitors come, leave and are cancelled at random, several before anyone gets to run."""
    schedule = random.Random(seed)
    most = schedule.choice([None, 1, 3])
    admission = Admission(schedule.randint(1, 4), schedule.randint(0, 6))
    there: list[Visitor] = []
    for _ in range(150):
        for _ in range(schedule.randint(1, 4)):
            match schedule.choice(("come", "come", "leave", "cancel", "run")):
                case "come":
                    there.append(Visitor(admission, schedule.choice(("", "a", "b")), most))
                case "leave" if holding := [visit for visit in there if visit.admitted]:
                    schedule.choice(holding).leave.set()
                case "cancel" if there:
                    schedule.choice(there).task.cancel()
                case "run":
                    await asyncio.sleep(0)
        await settle()
        for visit in there:
            if visit.task.done() and not visit.task.cancelled():
                assert isinstance(visit.task.exception(), Overloaded | None)
        there = [visit for visit in there if not visit.task.done()]
        admitted = [visit.admitted for visit in there]
        for tenant in ("", "a", "b"):
            own = [visit.admitted for visit in there if visit.tenant == tenant]
            assert own == sorted(own, reverse=True), "somebody was overtaken by its own kind"
            assert admission.running_of(tenant) == sum(own)
            assert admission.waiting_of(tenant) == len(own) - sum(own)
        assert admission.running == sum(admitted) <= admission.max_running
        assert admission.waiting == len(there) - sum(admitted) <= admission.max_waiting
        assert not admission.waiting or admission.running == admission.max_running, "a lost wake-up"
    for visit in there:
        visit.leave.set()
    await asyncio.wait_for(admission.idle(), 5)
    await asyncio.gather(*(visit.task for visit in there), return_exceptions=True)
    assert (admission.running, admission.waiting) == (0, 0)


class Simulation:
    """Visitors that hold a place for a random time of mean `seconds`, on a clock of their own."""

    def __init__(self, admission: Admission, clock: Clock, seconds: float, seed: int) -> None:
        self.admission = admission
        self.clock = clock
        self.seconds = seconds
        self.random = random.Random(seed)
        self.ends: dict[Visitor, float] = {}
        self.waiting: list[Visitor] = []

    async def come(self, count: int) -> None:
        self.waiting += [Visitor(self.admission) for _ in range(count)]
        await self._note_ends()

    async def until(self, end: float) -> None:
        """Lets everyone leave whose time is over by then."""
        while self.ends and min(self.ends.values()) <= end:
            visit = min(self.ends, key=lambda visit: self.ends[visit])
            self.clock.now = self.ends.pop(visit)
            visit.leave.set()
            await self._note_ends()
        self.clock.now = end

    async def _note_ends(self) -> None:
        await settle()
        for visit in [visit for visit in self.waiting if visit.admitted]:
            self.waiting.remove(visit)
            self.ends[visit] = self.clock.now + self.seconds * self.random.uniform(0.5, 1.5)


async def test_whoever_comes_back_when_told_to_finds_the_queue_drained() -> None:
    """Held against the queue itself: how long it takes until all who wait have been served."""
    clock = Clock()
    admission = Admission(max_running=8, max_waiting=40, clock=clock)
    simulation = Simulation(admission, clock, seconds=4.0, seed=0)
    told, took = [], []
    for _ in range(20):
        clock.now += 1000  # nobody comes for a long time, which must not look like slowness
        await simulation.come(48)
        await simulation.until(clock.now + 6)
        begin, wait = clock.now, admission.wait_of()
        while admission.waiting:
            await simulation.until(clock.now + 0.1)
        told.append(wait)
        took.append(clock.now - begin)
        await simulation.until(clock.now + 100)
        assert admission.running == 0
    assert admission.drain_rate == pytest.approx(8 / 4.0, rel=0.1)
    # One more than waited has to be served.
    assert all(-1 <= one - other <= 5 for one, other in zip(told[1:], took[1:], strict=True))
    assert sum(told) < 1.2 * sum(took)


async def test_before_anything_finished_the_wait_so_far_stands_in_for_the_rate() -> None:
    clock = Clock()
    admission = Admission(max_running=1, max_waiting=1, clock=clock)
    assert admission.drain_rate is None
    (visit,) = await visitors(admission, 1)
    assert admission.wait_of() == UNKNOWN
    clock.now += 23.4
    assert admission.wait_of() == pytest.approx(23.4)
    clock.now += 1000
    assert admission.wait_of() == WINDOW
    await dismiss(visit)


async def test_a_rate_is_forgotten_once_nothing_has_finished_for_a_whole_window() -> None:
    clock = Clock()
    admission = Admission(max_running=1, max_waiting=5, clock=clock)
    visits = await visitors(admission, 3)
    clock.now += 2
    await dismiss(visits[0])
    assert admission.drain_rate == pytest.approx(0.5)
    assert admission.wait_of() == 4  # one waits, and the newcomer would be the second
    clock.now += WINDOW + 1
    assert admission.drain_rate is None
    assert admission.wait_of() == WINDOW
    await dismiss(*visits)


async def test_no_wait_is_longer_than_the_longest() -> None:
    clock = Clock()
    admission = Admission(max_running=1, max_waiting=500, clock=clock)
    visits = await visitors(admission, 400)
    clock.now += 50
    await dismiss(visits[0])
    assert admission.wait_of() == LONGEST
    for visit in visits:
        visit.task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*(visit.task for visit in visits))


async def test_the_first_to_finish_does_not_look_like_many() -> None:
    clock = Clock()
    admission = Admission(max_running=2, max_waiting=100, clock=clock)
    visits = await visitors(admission, 50)
    clock.now += 0.001
    await dismiss(visits[0])
    assert admission.drain_rate == pytest.approx(1.0)
    for visit in visits:
        visit.leave.set()
    await dismiss(*visits)
