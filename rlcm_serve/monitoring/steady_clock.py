"""Unix time that never goes back, although the clock of the host may be set back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class SteadyClock:
    """Gives the time at which questions are asked. May be used from any thread.

    Monitors see answers in the order of these times, and never look back. An answer with an earlier
    time than one that they have seen would enter no test. So this clock follows the host's clock
    forwards. When that is set back, this one goes on at the pace of a stopwatch.

    Args:
        not_before: the least that it gives, Unix time in seconds.
        host: the host's clock, Unix time in seconds.
        stopwatch: seconds from some moment on; never set.
    """

    def __init__(
        self,
        not_before: float = 0.0,
        host: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._stopwatch = host, stopwatch
        self._lock = threading.Lock()
        self._ahead = not_before - stopwatch()

    def __call__(self) -> float:
        """The time in seconds."""
        with self._lock:
            passed = self._stopwatch()
            self._ahead = max(self._ahead, self._host() - passed)
            return passed + self._ahead
