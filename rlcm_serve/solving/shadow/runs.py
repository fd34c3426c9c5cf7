"""Draws questions for shadow runs, and runs them beside callers' questions, a few at a time.

Whether a question is drawn, and whether there is a place for its run, is decided when it is asked,
before its first token. So the draw is independent of its answer given everything before it, and a
run that is dropped for lack of a place says nothing about the answer. What happens later, such as
the death of the engine, may depend on the answer: such a run counts as missing, and not as dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import Solution
from rlcm_serve.solving.shadow.background import BackgroundTasks, attempt
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.shadow.full_budget import full_answer
from rlcm_serve.solving.solver import Prepared

MOST_HELD = 50
"""Questions and runs that hold a place without running: their questions are still being answered,
or they wait for their turn."""


class ShadowOutcome(NamedTuple):
    """What came of a shadow run; `disagrees` is None if it gave no result."""

    id: str
    disagrees: bool | None
    answer: str | None = None
    tokens: int | None = None


@dataclass(slots=True)
class Claim:
    """A question's draw, and whether its place is used by a run."""

    id: str
    draw: ShadowDraw
    is_running: bool = False


Keep = Callable[[ShadowOutcome], Awaitable[None]]
"""Stores what came of a run."""


class ShadowRuns:
    """The shadow runs of one process. Belongs to one event loop.

    Args:
        share: of the questions.
        at_once: runs at the same time.
        draws: whether an answer with this id is drawn, at this share.
        is_busy: whether callers' questions take every place.
        keep: stores an outcome.
        limit: seconds after which a run is given up.
    """

    def __init__(
        self,
        share: float,
        at_once: int,
        draws: Callable[[str, float], bool],
        is_busy: Callable[[], bool],
        keep: Keep,
        limit: float,
    ) -> None:
        self._share, self._most = share, at_once + MOST_HELD
        self._draws, self._is_busy, self._keep = draws, is_busy, keep
        self._limit = limit
        self._turns = asyncio.Semaphore(at_once)
        self._held = 0
        self._tasks = BackgroundTasks()

    @contextmanager
    def question(self, id_: str) -> Iterator[Claim]:
        """A question from before its first token to its answer, with its draw.

        Its place is free again afterwards, unless its run was started.
        """
        has_place = self._held < self._most and not self._is_busy()
        share = self._share if has_place else 0.0
        claim = Claim(id_, ShadowDraw(share, self._draws(id_, self._share)))
        self._held += claim.draw.runs
        try:
            yield claim
        finally:
            if claim.draw.runs and not claim.is_running:
                self._held -= 1

    def given(
        self, claim: Claim, prepared: Prepared, solution: Solution, verdicts: Verdicts
    ) -> ShadowDraw | None:
        """Starts the run of an answer that is given, if it was drawn; returns at once.

        Returns:
            The draw, for the answer's record; None if the answer does not count: it has no
            guarantee, or was declined under `selective`.
        """
        guarantee = solution.guarantee
        if guarantee is None or (solution.abstained and guarantee.risk == "selective"):
            return None
        if not claim.draw.runs:
            return claim.draw
        claim.is_running = True
        self._tasks.start(self._run(claim, prepared, solution, verdicts))
        return claim.draw

    async def close(self) -> None:
        """Ends all runs; those without a result are missing."""
        await self._tasks.close()

    async def _run(
        self, claim: Claim, prepared: Prepared, solution: Solution, verdicts: Verdicts
    ) -> None:
        outcome = ShadowOutcome(claim.id, None)
        try:
            async with attempt(f"the shadow run of {claim.id}", self._limit), self._turns:
                outcome = await self._outcome(claim.id, prepared, solution, verdicts)
        finally:
            self._held -= 1
        await self._keep(outcome)

    async def _outcome(
        self, id_: str, prepared: Prepared, solution: Solution, verdicts: Verdicts
    ) -> ShadowOutcome:
        full = await full_answer(prepared, solution, verdicts, self._is_busy)
        if full.answer is None:
            return ShadowOutcome(id_, False, None, full.tokens)
        given, other = await verdicts.classes_async([solution.answer, full.answer])
        return ShadowOutcome(id_, given != other, full.answer, full.tokens)
