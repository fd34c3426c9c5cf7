"""Limits per minute of processes that share a database; each object is one process."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from rlcm_serve.admission import RateLimits, Rates, rates
from rlcm_serve.admission.budgets import Claim, Settled
from rlcm_serve.errors import DatabaseRefused, RateLimited
from rlcm_serve.store.database import Database
from rlcm_serve.store.limits.stored import StoredBudgets


class Clock:
    """Seconds, as the processes and the database see them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self, session: object = None) -> float:
        return self.now


@pytest.fixture
def clock(database: Database, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(database, "now", clock)
    monkeypatch.setattr(rates, "PAUSE", 0.0)
    return clock


def process(database: Database, clock: Clock) -> RateLimits:
    return RateLimits(StoredBudgets(database), clock)


async def enters(limits: RateLimits, of: Rates, key: str = "a") -> bool:
    try:
        await limits.enter(key, of)
    except RateLimited:
        return False
    return True


async def test_requests_at_one_moment_get_what_one_bucket_holds(
    database: Database, clock: Clock
) -> None:
    processes = [process(database, clock) for _ in range(3)]
    of = Rates(requests=30)
    assert await enters(processes[0], of)
    entered = await asyncio.gather(*(enters(processes[n % 3], of) for n in range(90)))
    assert sum(entered) == 29
    clock.now += 10
    entered = await asyncio.gather(*(enters(processes[n % 3], of) for n in range(90)))
    assert sum(entered) == 5
    assert await enters(processes[1], of, "b")


@pytest.mark.parametrize("seed", range(2))
async def test_processes_that_are_killed_and_started_keep_limits_within_a_tenth(
    database: Database, clock: Clock, seed: int
) -> None:
    rng = random.Random(seed)
    processes = [process(database, clock) for _ in range(3)]
    of, minutes, begun, spent = Rates(requests=400, tokens=40_000), 1.0, 0, 0.0
    busiest = rng.randrange(3)  # the load is rarely even
    for step in range(round(minutes * 60 * 20)):
        clock.now += 1 / 20
        number = rng.choice([0, 1, 2, busiest])
        if await enters(processes[number], of):
            begun += 1
            processes[number].spend("a", 100)  # as expected
            cost = rng.choice([20, 60, 160]) - 100  # and what it turns out to be
            processes[number].spend("a", cost)
            spent += 100 + cost
            await asyncio.sleep(0)
        if step % 300 == 299:
            processes[rng.randrange(3)] = process(database, clock)  # after a kill
    for running in processes:
        await running.close()
    most = 1 + minutes  # a full bucket, and what flowed in
    assert 0.9 <= max(begun / (400 * most), spent / (40_000 * most)) <= 1.1


async def test_what_one_process_spends_another_knows_before_its_next_request(
    database: Database, clock: Clock
) -> None:
    here, there = process(database, clock), process(database, clock)
    of = Rates(tokens=6000)
    await here.enter("a", of)
    here.spend("a", 9000)
    assert here._later is not None
    await here._later
    with pytest.raises(RateLimited) as refused:
        await there.enter("a", of)
    assert refused.value.retry_after == pytest.approx(30, abs=1)


async def test_a_process_that_ends_gives_back_what_it_holds(
    database: Database, clock: Clock
) -> None:
    here, there = process(database, clock), process(database, clock)
    of = Rates(requests=2000)
    assert await enters(here, of)
    await here.close()
    await there.enter("a", of)
    assert there.headers("a", of)["x-ratelimit-remaining-requests"] == "1998"


class Unreachable(StoredBudgets):
    """Buckets in a database that cannot be reached for a while."""

    is_down = False
    asked = 0

    async def settle(self, claims: Sequence[Claim]) -> list[Settled]:
        self.asked += 1
        if self.is_down:
            raise DatabaseRefused("down")
        return await super().settle(claims)


async def test_without_the_database_each_process_counts_by_itself(
    database: Database, clock: Clock
) -> None:
    budgets = Unreachable(database)
    limits, of = RateLimits(budgets, clock), Rates(requests=10)
    assert await enters(limits, of)
    budgets.is_down = True
    entered = [await enters(limits, of) for _ in range(20)]
    assert (sum(entered), budgets.asked) == (9, 2)
    budgets.is_down = False
    clock.now += 6
    assert await enters(limits, of)
    assert budgets.asked == 3
