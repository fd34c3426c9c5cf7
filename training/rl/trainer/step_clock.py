"""Measures the seconds of a training step, by part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ADDED = ("forced answers", "probe")
"""Parts that plain GRPO does not have."""
UPDATE = "update"


class StepClock:
    """Adds up seconds by part until a step ends. Nested parts count for the inner part only."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Counts the time of the block for `part`."""
        self._turn()
        self._open.append(part)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        now = self._now()
        if self._open:
            self._seconds[self._open[-1]] += now - self._since
        self._since = now

    def finish(self) -> dict[str, float]:
        """The seconds of the finished step, by part. The next step starts at 0."""
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds


def overhead(seconds: dict[str, float]) -> float:
    """A step's time divided by its time without forced answers and probe; 1 means no cost."""
    whole = sum(seconds.values())
    plain = whole - sum(seconds.get(part, 0.0) for part in ADDED)
    return whole / plain if plain > 0 else 1.0
