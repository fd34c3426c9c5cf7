"""A pool of processes that read the answers of a batch, and of graders that compare them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

from rlcm_serve.aggregation.readers import CHUNK, Reader
from rlcm_serve.answers.canonical.form import Form
from rlcm_serve.answers.canonical.reading import Forms, canonical
from rlcm_serve.answers.grader import AnswerGrader

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = 2
FEW = 8192
"""Characters that are read in this process; starting another takes longer, a fifth of a second."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparisons for one problem.

    Attributes:
        answers: answers to group into classes.
        candidates: answers to compare with the reference.
        reference: the true answer; None if unknown, and then there are no candidates.
        forms: canonical forms that are known already.
    """

    answers: Sequence[str]
    candidates: Sequence[str]
    reference: str | None
    forms: Forms = field(default_factory=dict)


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
        workers: most processes that read, and most that compare; by default WORKERS, and no more
            than the cores that this process may use.
        time_limit: seconds for one comparison.
        grouping_limit: seconds for the classes of one problem, and again for its reference.
        batch_limit: seconds of all workers together. Then only identical texts are equal.
        niceness: of the processes.
    """

    def __init__(
        self,
        workers: int | None = None,
        time_limit: float = 5.0,
        grouping_limit: float = 20.0,
        batch_limit: float = math.inf,
        niceness: int = 0,
    ) -> None:
        count = workers or min(WORKERS, len(os.sched_getaffinity(0)))
        self._graders = [AnswerGrader(time_limit, grouping_limit, niceness) for _ in range(count)]
        self._limit, self._left = grouping_limit, batch_limit
        self._spending = Lock()
        self._idle: SimpleQueue[AnswerGrader] = SimpleQueue()
        for grader in self._graders:
            self._idle.put(grader)
        self._readers = [Reader(niceness) for _ in range(count)]
        self._idle_readers: SimpleQueue[Reader] = SimpleQueue()
        for reader in self._readers:
            self._idle_readers.put(reader)
        self._threads = ThreadPoolExecutor(count, "grader")
        self._is_abandoned = False

    def read(self, texts: Sequence[str]) -> dict[str, Form | None]:
        """The canonical forms of texts; None where there is none, or where time ran out.

        Raises:
            WorkerFailed: a process was killed.
            RuntimeError: the pool was closed.
        """
        if sum(map(len, texts)) <= FEW:
            return {text: canonical(text) for text in texts}
        chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
        forms = chain.from_iterable(self._each(self._read, chunks))
        return dict(zip(texts, forms, strict=True))

    def compare(self, comparisons: Sequence[Comparison]) -> Iterator[Finding]:
        """One finding per comparison, in order.

        Raises:
            WorkerFailed: two workers in a row were killed, or math-verify does not load.
            RuntimeError: the pool was closed.
        """
        return self._each(self._find, comparisons)

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
        for reader in self._readers:
            reader.kill()

    def close(self) -> None:
        """Ends all workers; may be called twice."""
        self.abandon()
        self._threads.shutdown()
        for grader in self._graders:
            grader.close()
        for reader in self._readers:
            reader.close()

    def _each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        try:
            yield from self._threads.map(work, items)
        except CancelledError:  # `abandon` cancels what has not started
            raise RuntimeError("the pool was closed") from None

    def _read(self, texts: Sequence[str]) -> Sequence[Form | None]:
        reader = self._idle_readers.get()
        try:
            with self._limited(math.inf) as limit:
                forms = reader.read(texts, limit)
            return [None] * len(texts) if forms is None else forms
        finally:
            self._idle_readers.put(reader)

    def _find(self, comparison: Comparison) -> Finding:
        grader = self._idle.get()
        undecided = grader.undecided
        try:
            with self._limited(self._limit) as limit:
                classes = grader.classes(comparison.answers, limit, comparison.forms)
            correct: list[bool] = []
            if comparison.reference is not None:
                with self._limited(self._limit) as limit:
                    correct = grader.matches(
                        comparison.candidates, comparison.reference, limit, comparison.forms
                    )
            return Finding(classes, correct, grader.undecided == undecided)
        finally:
            self._idle.put(grader)

    @contextmanager
    def _limited(self, most: float) -> Iterator[float]:
        """Seconds that a call may take; what it takes is no longer there for others."""
        began = time.monotonic()
        try:
            yield max(0.0, min(most, self._left))
        finally:
            with self._spending:
                self._left -= time.monotonic() - began
