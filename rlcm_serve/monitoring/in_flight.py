"""Which questions of this process are being answered, by the time at which they were asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class InFlight:
    """Knows the oldest question whose answer may still come. May be used from any thread.

    Args:
        clock: Unix time in seconds that never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started: Counter[float] = Counter()

    @contextmanager
    def question(self) -> Iterator[float]:
        """A question, until its answer is given or given up: when it was asked, Unix time."""
        with self._lock:  # so that no mark falls between the clock and the note
            started = self._clock()
            self._started[started] += 1
        try:
            yield started
        finally:
            with self._lock:
                self._started[started] -= 1
                if not self._started[started]:
                    del self._started[started]

    def mark(self) -> float:
        """A time such that all questions asked before it have ended, and none will be added."""
        with self._lock:
            return min(self._started, default=self._clock())
