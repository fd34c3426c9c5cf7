"""Makes room when too many connections are open: whoever keeps the service waiting goes first.

Beyond the limit on open files libuv closes new connections without a word, `/health` included, and
the database and uploads find no descriptor either. So connections end before that.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

ROOM = 16
"""Connections that are closed beyond the necessary ones, so that not every newcomer counts all."""
LOG_EVERY = 60.0
"""Seconds between two lines in the log while there are too many."""
_log = logging.getLogger(__name__)


class Connection(Protocol):
    """One connection, as far as its end is concerned."""

    heard_at: float
    """When its client last sent something, in seconds of a monotonic clock."""

    @property
    def is_open(self) -> bool:
        """Whether it is not being closed."""

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has something to send or to read."""

    def drop(self) -> None:
        """Closes it at once."""


class Crowding:
    """Closes connections when there are too many.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at = float("-inf")

    def make_room(self, connections: Iterable[Connection], newest: Connection, most: int) -> None:
        """Closes those that have waited longest for their clients; none that computes an answer.

        Args:
            connections: all of them.
            newest: the one that has just been made; it stays.
            most: number of connections that may be open.
        """
        others = [one for one in connections if one.is_open and one is not newest]
        excess = len(others) + 1 - most
        if excess <= 0:
            return
        waiting = [one for one in others if one.waits_for_client]
        for one in heapq.nsmallest(excess + ROOM, waiting, key=lambda one: one.heard_at):
            one.drop()
        if self._clock() - self._logged_at >= LOG_EVERY:
            self._logged_at = self._clock()
            _log.warning(
                "too many connections: closing those whose clients have been silent longest; if "
                "these are no attack, raise the limit on open files (ulimit -n, LimitNOFILE)"
            )
