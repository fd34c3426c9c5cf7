"""Several graders at work on the problems of a batch whose answers take mathematics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

from rlcm_serve.answers.grader import AnswerGrader

WORKERS = 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is to be found out about one problem.

    Attributes:
        answers: to be put into classes.
        candidates: to be held against the reference.
        reference: the true answer; None if it is not known, and then there are no candidates.
    """

    answers: Sequence[str]
    candidates: Sequence[str]
    reference: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """The class of each answer, and whether each candidate is right."""

    classes: list[int]
    correct: list[bool]


class Graders:
    """A pool of graders; none starts before it has something to compare.

    Args:
        workers: how many processes compare at most.
        time_limit: seconds for one comparison.
        grouping_limit: seconds for the classes of one problem, and as much for its reference.
    """

    def __init__(
        self, workers: int | None = None, time_limit: float = 5.0, grouping_limit: float = 20.0
    ) -> None:
        count = workers or min(WORKERS, os.cpu_count() or 1)
        self._graders = [AnswerGrader(time_limit, grouping_limit) for _ in range(count)]
        self._idle: SimpleQueue[AnswerGrader] = SimpleQueue()
        for grader in self._graders:
            self._idle.put(grader)
        self._threads = ThreadPoolExecutor(count, "grader")
        self._is_abandoned = False

    def compare(self, comparisons: Sequence[Comparison]) -> Iterator[Finding]:
        """A finding for each, in order.

        Raises:
            RuntimeError: math-verify does not load, or the pool has been closed.
        """
        return self._threads.map(self._find, comparisons)

    def check(self) -> None:
        """Raises a RuntimeError if nobody waits for what is found any more."""
        if self._is_abandoned:
            raise RuntimeError("the graders have been abandoned")

    def abandon(self) -> None:
        """Has every comparison end with an error, at once; from any thread, and without waiting."""
        self._is_abandoned = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for grader in self._graders:
            grader.abandon()

    def close(self) -> None:
        """Ends all workers; may be called twice."""
        self.abandon()
        self._threads.shutdown()
        for grader in self._graders:
            grader.close()

    def _find(self, comparison: Comparison) -> Finding:
        grader = self._idle.get()
        try:
            classes = grader.classes(comparison.answers)
            if comparison.reference is None:
                return Finding(classes, [])
            return Finding(classes, grader.matches(comparison.candidates, comparison.reference))
        finally:
            self._idle.put(grader)
