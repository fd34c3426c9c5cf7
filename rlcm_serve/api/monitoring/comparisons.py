"""Compares answers with those that levels of rehearsed certificates would have given earlier.

An answer at an earlier stop is not known from readings. It is forced in the background, at the
prefix where the level would have stopped. Places are few, and given when a question is asked,
before anything of its answer is known: so what has no place says nothing about the level.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.answers.profile_graders import verdicts_of
from rlcm_serve.core import Sample, Solution
from rlcm_serve.evidence.rehearsal import Replayed
from rlcm_serve.solving.service import Service
from rlcm_serve.solving.shadow.background import BackgroundTasks, attempt
from rlcm_serve.solving.shadow.full_budget import POLL, PRIORITY
from rlcm_serve.solving.solver import Prepared

MOST_HELD = 100
"""Audited questions that hold a place: they are still being answered, or wait to be compared."""
LIMIT = 3600.0
"""Seconds after which a comparison is given up."""

Keep = Callable[[str, Sequence[tuple[str, float, bool]]], Awaitable[None]]
"""Stores of an answer's id whether levels agree: certificate, alpha, and whether."""


@dataclass(slots=True)
class Place:
    """A question's place for a comparison.

    Attributes:
        is_held: whether it has one.
        is_kept: whether the place stays taken after the question.
    """

    is_held: bool
    is_kept: bool = False


class Comparisons:
    """The comparisons of one process, one at a time. Belongs to one event loop.

    Args:
        service: has the grader.
        is_busy: whether callers' questions take every place.
        keep: stores what was compared.
    """

    def __init__(self, service: Service, is_busy: Callable[[], bool], keep: Keep) -> None:
        self._service, self._is_busy, self._keep = service, is_busy, keep
        self._turn = asyncio.Semaphore(1)
        self._held = 0
        self._tasks = BackgroundTasks()

    @contextmanager
    def question(self, *, is_wanted: bool) -> Iterator[Place]:
        """A question from before its first token to its answer, with its place, if it needs one.

        The place is free again afterwards, unless it is kept.
        """
        place = Place(is_wanted and self._held < MOST_HELD)
        self._held += place.is_held
        try:
            yield place
        finally:
            if not place.is_kept:
                self.free(place)

    def free(self, place: Place) -> None:
        """Gives a place back, if it was held."""
        self._held -= place.is_held
        place.is_held = False

    def start(
        self, place: Place, id_: str, prepared: Prepared, solution: Solution, levels: list[Replayed]
    ) -> None:
        """Compares an answer where it has a place and levels stop it earlier; returns at once."""
        earlier = [one for one in levels if one.answers and one.agrees is None]
        if not (place.is_held and earlier and solution.answer is not None):
            return self.free(place)
        self._tasks.start(self._run(place, id_, prepared, solution, earlier))
        return None

    async def close(self) -> None:
        """Ends what is being compared; levels without a result stay unknown."""
        await self._tasks.close()

    async def _run(
        self, place: Place, id_: str, prepared: Prepared, solution: Solution, levels: list[Replayed]
    ) -> None:
        agrees: dict[int | None, bool] = {}
        try:
            async with attempt(f"the comparison of {id_}", LIMIT):
                for stop in sorted({one.stop or 0 for one in levels}):
                    async with self._turn:
                        agrees[stop] = await self._agrees(prepared, solution, stop)
        finally:
            self.free(place)
        known = [one for one in levels if one.stop in agrees]
        if known:
            await self._keep(id_, [(one.certificate, one.alpha, agrees[one.stop]) for one in known])

    async def _agrees(self, prepared: Prepared, solution: Solution, stop: int) -> bool:
        """Whether the answer at an earlier stop of the only sample is the one that was given."""
        while self._is_busy():  # nobody tells when callers stop waiting  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        (sample,) = solution.samples
        if not isinstance(sample, Sample):  # it would have no answer
            raise TypeError(f"the only sample is a {type(sample).__name__}")
        cut = sample.rollout.cut(stop)
        generation = replace(prepared.generation, priority=PRIORITY)
        forced = await answer_rollout(prepared.reasoner, prepared.prompt, cut, generation)
        answer = forced.answers[0]
        verdicts = verdicts_of(prepared.reasoner.identity.profile, self._service.grader)
        given, other = await verdicts.classes_async([solution.answer, answer])
        return answer is not None and given == other
