"""The guarantee of questions that callers may ask again: what callers do, and what must be caught.

A world of easy and hard questions, whose levels keep exactly .1 and .2 when every question is asked
once. Callers then ask as they like. Every question counts once, by its first answer under a
guarantee.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from calibration import ExitPolicy, ExitReason
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Question, Solution
from rlcm_serve.solving.first_asks import FirstAsks
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Prepared, Solver
from rlcm_serve.solving.unanswered import UnansweredHere
from tests.rlcm_serve.scripted_engine import IDENTITY, ScriptedEngine, certificate

QUESTIONS = 4000
EASY = 0.7
"""Share of easy questions."""
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class Level:
    """Shares answered of easy and hard questions, and of hard answers that is wrong.

    The share of easy answers that is wrong makes the risk of the level alpha.
    """

    alpha: float
    easy_answered: float
    hard_answered: float
    hard_wrong: float

    @property
    def easy_wrong(self) -> float:
        easy, hard = EASY * self.easy_answered, (1 - EASY) * self.hard_answered
        return (self.alpha * (easy + hard) - hard * self.hard_wrong) / easy


STRICT = Level(0.1, easy_answered=0.95, hard_answered=0.1, hard_wrong=0.8)
LOOSE = Level(0.2, easy_answered=1.0, hard_answered=0.6, hard_wrong=0.6)


class NoMemory(UnansweredHere):
    """Broken: forgets every question."""

    async def add(self, key_id: str | None, digest: bytes) -> None:
        pass


class OneAtATime(FirstAsks):
    """Broken: does not see asks that are still running."""

    def ask(self, prepared, digest, key_id=None):  # type: ignore[no-untyped-def]
        self._running.clear()
        return super().ask(prepared, digest, key_id)


@dataclass
class Service:
    """Answers the world's questions as `rlcm_serve.api.ask` does, with outcomes from a table."""

    prepared: Prepared
    first_asks: FirstAsks
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(20))
    hard_Q: np.ndarray = field(init=False)
    counted: dict[int, tuple[float, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hard_Q = self.rng.random(QUESTIONS) >= EASY

    async def ask(self, question: int, level: Level) -> bool:
        """Whether the caller got an answer."""
        hard = self.hard_Q[question]
        answered = self.rng.random() < (level.hard_answered if hard else level.easy_answered)
        wrong = self.rng.random() < (level.hard_wrong if hard else level.easy_wrong)
        async with self.first_asks.ask(self.prepared, b"%d" % question) as asked:
            await asyncio.sleep(0)  # it thinks
            asked.solution = _solution(answered=answered)
        await asked.remembered()
        if answered and asked.prepared.terms.guarantee is not None:
            self.counted.setdefault(question, (level.alpha, bool(wrong)))
        return answered


def _solution(*, answered: bool) -> Solution:
    answer = "7" if answered else None
    return Solution(answer, None, ExitReason.LOW, (), None, None, None)


async def once(service: Service, question: int) -> None:
    await service.ask(question, STRICT if question % 2 else LOOSE)


async def climb(service: Service, question: int) -> None:
    if not await service.ask(question, STRICT):
        await service.ask(question, LOOSE)


async def retry(service: Service, question: int) -> None:
    for _ in range(8):
        if await service.ask(question, STRICT):
            return


async def at_once(service: Service, question: int) -> None:
    await asyncio.gather(*(service.ask(question, STRICT) for _ in range(8)))


async def climb_at_once(service: Service, question: int) -> None:
    await asyncio.gather(service.ask(question, STRICT), service.ask(question, LOOSE))


Caller = Callable[[Service, int], Awaitable[None]]
CALLERS: tuple[Caller, ...] = (once, climb, retry, at_once, climb_at_once)


@pytest.fixture(scope="module")
def prepared() -> Iterator[Prepared]:
    certified = certificate({0.1: ExitPolicy(lambda_low=0.1, lambda_high=0.9)})
    with AnswerGrader() as grader:
        solver = Solver(ScriptedEngine(), Guarantees([IDENTITY], [certified]), grader)
        yield solver.prepare(Question("What is 3?", alpha=0.1))


def violations(prepared: Prepared, caller: Caller, first_asks: FirstAsks) -> list[float]:
    """The levels at which more answers are wrong than chance explains."""
    service = Service(prepared, first_asks)

    async def run() -> None:
        for question in range(QUESTIONS):
            await caller(service, question)

    asyncio.run(run())
    answered, wrong = Counter[float](), Counter[float]()
    for alpha, is_wrong in service.counted.values():
        answered[alpha] += 1
        wrong[alpha] += is_wrong
    assert sum(answered.values()) > QUESTIONS / 2
    return [
        alpha
        for alpha, n in answered.items()
        if binomtest(wrong[alpha], n, alpha, "greater").pvalue < FALSE_ALARM
    ]


def test_the_levels_keep_their_alpha_exactly_when_asked_once() -> None:
    for level in (STRICT, LOOSE):
        easy, hard = EASY * level.easy_answered, (1 - EASY) * level.hard_answered
        wrong = easy * level.easy_wrong + hard * level.hard_wrong
        assert 0 < level.easy_wrong < level.hard_wrong
        assert wrong / (easy + hard) == pytest.approx(level.alpha)


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)
def test_first_answers_keep_their_alpha_whatever_callers_do(
    prepared: Prepared, caller: Caller
) -> None:
    assert violations(prepared, caller, FirstAsks(UnansweredHere())) == []


@pytest.mark.parametrize("caller", [climb, retry], ids=lambda caller: caller.__name__)
def test_without_a_memory_the_same_callers_break_the_promise(
    prepared: Prepared, caller: Caller
) -> None:
    assert violations(prepared, caller, FirstAsks(NoMemory()))


@pytest.mark.parametrize("caller", [at_once, climb_at_once], ids=lambda caller: caller.__name__)
def test_asks_that_run_must_count_as_well(prepared: Prepared, caller: Caller) -> None:
    assert violations(prepared, caller, OneAtATime(UnansweredHere()))


SHARES = st.lists(st.floats(0.001, 1), min_size=9, max_size=9)


@given(SHARES)
def test_a_plan_of_asks_keeps_the_sum_of_its_alphas(shares: list[float]) -> None:
    """Declined, right, wrong at two asks of a question, with any dependence: 9 shares."""
    p = np.reshape(shares, (3, 3)) / sum(shares)
    first = p[2].sum() / p[1:].sum()
    second = p[:, 2].sum() / p[:, 1:].sum()
    climbing = (p[2].sum() + p[0, 2]) / (1 - p[0, 0])
    assert climbing <= first + second + 1e-12
