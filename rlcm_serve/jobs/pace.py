"""Estimates how long a job will still take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW = 300.0
"""The rate is measured over the last so many seconds."""


class Pace:
    """Measures the rate at which items finish."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        self._total = 0

    def note(self, done: int, total: int) -> None:
        """Notes that `done` of `total` items are finished."""
        now = self._clock()
        self._total = total
        self._seen.append((now, done))
        while self._seen[0][0] < now - WINDOW and len(self._seen) > 2:
            self._seen.popleft()

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the rate of the last minutes; None until an item has finished."""
        if not self._seen:
            return None
        (since, before), (_, done) = self._seen[0], self._seen[-1]
        if done == before:
            return None
        return (self._total - done) * (self._clock() - since) / (done - before)
