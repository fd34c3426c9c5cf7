"""How fast a job gets on, and so how long it will still take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW = 300.0
"""Seconds of the past that speak of the future."""


class Pace:
    """Counts what is finished, as it finishes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        self._total = 0

    def note(self, done: int, total: int) -> None:
        """Now `done` of `total` are finished."""
        now = self._clock()
        self._total = total
        self._seen.append((now, done))
        while self._seen[0][0] < now - WINDOW and len(self._seen) > 2:
            self._seen.popleft()

    @property
    def seconds_left(self) -> float | None:
        """At the rate of the last minutes; None until something has finished."""
        if not self._seen:
            return None
        (since, before), (_, done) = self._seen[0], self._seen[-1]
        if done == before:
            return None
        return (self._total - done) * (self._clock() - since) / (done - before)
