"""Grades the references of labels, so that no caller holds up live votes or other callers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from rlcm_serve.admission import Admission, Tenant
from rlcm_serve.answers.grader import BACKGROUND, AnswerGrader

MOST_AT_ONCE = 2
"""Requests whose references are graded at a time, one of each key."""
MOST_WAITING = 32
"""Requests that may wait for that; further ones are refused."""

Result = TypeVar("Result")


class Grading:
    """Threads and graders of their own: live votes share none of them. Belongs to one event loop.

    One hostile reference takes a grader seconds, and a request may have thousands. So each request
    has a grader to itself, and only requests of the same key wait for each other.
    """

    def __init__(self) -> None:
        self._places = Admission(MOST_AT_ONCE, MOST_WAITING, share=1 / MOST_AT_ONCE)
        self._threads = anyio.CapacityLimiter(MOST_AT_ONCE)
        self._running: set[AnswerGrader] = set()

    async def run(self, tenant: Tenant, work: Callable[[AnswerGrader], Result]) -> Result:
        """The result of `work`, which a thread does with a grader that ends with it.

        Raises:
            Overloaded: too many requests wait already, or too many of this caller.
            NotReady: the service is stopping.
        """
        async with self._places.place(tenant) as place:
            began = time.monotonic()
            try:
                # A cancelled caller waits for the thread: its place is free when the thread is.
                return await anyio.to_thread.run_sync(
                    partial(self._work, work), limiter=self._threads
                )
            finally:
                place.cost = 1000 * (time.monotonic() - began)

    def drain(self) -> None:
        """Refuses further work, and what waits."""
        self._places.close()

    def close(self) -> None:
        """Makes what still runs fail soon, without waiting for it."""
        self.drain()
        for grader in [*self._running]:
            grader.abandon()

    def _work(self, work: Callable[[AnswerGrader], Result]) -> Result:
        with AnswerGrader(niceness=BACKGROUND) as grader:
            self._running.add(grader)
            try:
                return work(grader)
            finally:
                self._running.discard(grader)
