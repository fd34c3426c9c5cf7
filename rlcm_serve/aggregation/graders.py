"""A pool of graders for the problems of a batch that need math-verify."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock

from rlcm_serve.answers.grader import AnswerGrader

WORKERS = 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparisons for one problem.

    Attributes:
        answers: answers to group into classes.
        candidates: answers to compare with the reference.
        reference: the true answer; None if unknown, and then there are no candidates.
    """

    answers: Sequence[str]
    candidates: Sequence[str]
    reference: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """The class of each answer, and whether each candidate is right.

    `compared` says whether all were compared; if not, pairs left over count as not equal.
    """

    classes: list[int]
    correct: list[bool]
    compared: bool


class Graders:
    """A pool of graders; a grader starts with its first comparison.

    Args:
        workers: most processes that compare.
        time_limit: seconds for one comparison.
        grouping_limit: seconds for the classes of one problem, and again for its reference.
        batch_limit: seconds of all workers together. Then only identical texts are equal.
        niceness: of the processes that compare.
    """

    def __init__(
        self,
        workers: int | None = None,
        time_limit: float = 5.0,
        grouping_limit: float = 20.0,
        batch_limit: float = math.inf,
        niceness: int = 0,
    ) -> None:
        count = workers or min(WORKERS, os.cpu_count() or 1)
        self._graders = [AnswerGrader(time_limit, grouping_limit, niceness) for _ in range(count)]
        self._limit, self._left = grouping_limit, batch_limit
        self._spending = Lock()
        self._idle: SimpleQueue[AnswerGrader] = SimpleQueue()
        for grader in self._graders:
            self._idle.put(grader)
        self._threads = ThreadPoolExecutor(count, "grader")
        self._is_abandoned = False

    def compare(self, comparisons: Sequence[Comparison]) -> Iterator[Finding]:
        """One finding per comparison, in order.

        Raises:
            WorkerFailed: two workers in a row were killed, or math-verify does not load.
            RuntimeError: the pool was closed.
        """
        return self._threads.map(self._find, comparisons)

    def check(self) -> None:
        """Raises a RuntimeError if the pool was abandoned."""
        if self._is_abandoned:
            raise RuntimeError("the graders were abandoned")

    def abandon(self) -> None:
        """Ends every comparison with an error, at once; from any thread, without waiting."""
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
        undecided = grader.undecided
        try:
            with self._limited() as limit:
                classes = grader.classes(comparison.answers, limit)
            correct: list[bool] = []
            if comparison.reference is not None:
                with self._limited() as limit:
                    correct = grader.matches(comparison.candidates, comparison.reference, limit)
            return Finding(classes, correct, grader.undecided == undecided)
        finally:
            self._idle.put(grader)

    @contextmanager
    def _limited(self) -> Iterator[float]:
        """Seconds that a call may take; what it takes is no longer there for others."""
        began = time.monotonic()
        try:
            yield max(0.0, min(self._limit, self._left))
        finally:
            with self._spending:
                self._left -= time.monotonic() - began
