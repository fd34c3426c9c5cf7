"""How fast things happen, from the times at which they happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW = 60.0
"""Seconds over which a rate is measured."""
SHORTEST_WINDOW = 1.0
"""Shortest time over which a rate is measured, so that one event does not inflate it."""
_NEWEST = 0.2
"""Share of the newest value in a running mean."""


class BusyRate:
    """Events per second, on a clock that runs only while there is more to do than can be done.

    At other times the rate of events says how much comes, not how much can be done. The window
    covers the last `WINDOW` seconds of this clock, however long ago they were.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before = 0.0
        self._since: float | None = None
        self._events: deque[float] = deque()

    @property
    def seconds(self) -> float:
        """Total seconds for which the clock ran."""
        return self._before + (0.0 if self._since is None else self._clock() - self._since)

    @property
    def per_second(self) -> float | None:
        """Events per second within the window; None if there were none."""
        now = self.seconds
        self._forget(now)
        window = min(max(now, SHORTEST_WINDOW), WINDOW)
        return len(self._events) / window if self._events else None

    def run(self) -> None:
        """Starts the clock, if it stands."""
        if self._since is None:
            self._since = self._clock()

    def stop(self) -> None:
        """Stops the clock."""
        self._before = self.seconds
        self._since = None

    def note(self) -> None:
        """Counts an event, if the clock runs."""
        if self._since is not None:
            now = self.seconds
            self._forget(now)
            self._events.append(now)

    def _forget(self, now: float) -> None:
        """Drops the events that have left the window."""
        while self._events and self._events[0] <= now - WINDOW:
            self._events.popleft()


class RunningMean:
    """A mean in which each value counts less than the one after it; None before the first."""

    def __init__(self) -> None:
        self.value: float | None = None

    def add(self, value: float) -> None:
        """Adds a value."""
        before = value if self.value is None else self.value
        self.value = before + _NEWEST * (value - before)
