"""Responses that are kept in memory for repeats, within a time and a size."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from rlcm_serve.errors import KeyReused, StillRunning

SHARE = 4
"""One API key may have 1/4 of the memory."""
_OVERHEAD = 1024
"""Bytes that a response costs besides its content, so that small ones are bounded in number too."""


class Place(NamedTuple):
    """Where the response to a request is kept: under its API key, then route and idempotency key.

    Attributes:
        caller_id: id of the API key.
        name: stands for the route and the idempotency key.
    """

    caller_id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that it counts for."""
        return _OVERHEAD + len(self.body)


class _Entry(NamedTuple):
    digest: str
    response: Response
    until: float


@dataclass
class _Shelf:
    """What is kept for one API key, the oldest first."""

    entries: OrderedDict[str, _Entry] = field(default_factory=OrderedDict)
    size: int = 0

    def put(self, name: str, entry: _Entry) -> None:
        self.entries[name] = entry
        self.size += entry.response.size

    def drop_oldest(self) -> None:
        _, entry = self.entries.popitem(last=False)
        self.size -= entry.response.size


class KeptResponses:
    """The running requests that have an idempotency key, and the responses kept for repeats.

    If memory runs out, the oldest response of the API key that has most goes first, so one caller
    cannot displace the responses of others. Belongs to one event loop.

    Args:
        seconds: how long a response is kept at most.
        max_bytes: of all responses together.
        on_outcome: told how each request with an idempotency key ends, in one word.
        clock: monotonic time in seconds.
    """

    def __init__(
        self,
        seconds: float,
        max_bytes: int,
        on_outcome: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._on_outcome = on_outcome
        self._clock = clock
        self._running: dict[Place, str] = {}
        self._outdated: set[Place] = set()  # of the running requests
        self._shelves: dict[str | None, _Shelf] = {}

    @property
    def size(self) -> int:
        """Bytes of all kept responses."""
        return sum(shelf.size for shelf in self._shelves.values())

    def begin(self, place: Place, digest: str) -> Response | None:
        """The kept response to this request; None if it runs now, until `end` is called.

        Args:
            place: of the request.
            digest: of its body.

        Raises:
            KeyReused: the idempotency key came with another body before.
            StillRunning: the same request is running.
        """
        self._drop_expired()
        if (running := self._running.get(place)) is not None:
            self._on_outcome("running" if running == digest else "reused")
            raise StillRunning if running == digest else KeyReused
        shelf = self._shelves.get(place.caller_id, _Shelf())
        if (entry := shelf.entries.get(place.name)) is None:
            self._running[place] = digest
            return None
        if entry.digest != digest:
            self._on_outcome("reused")
            raise KeyReused
        self._on_outcome("replayed")
        return entry.response

    def forget(self) -> None:
        """Keeps nothing of what was answered, or begun, until now."""
        self._outdated |= self._running.keys()
        for shelf in self._shelves.values():
            while shelf.entries:
                self._displace(shelf)
        self._drop_empty()

    def end(self, place: Place, response: Response | None) -> None:
        """The request has ended; with None, a repeat runs again."""
        digest = self._running.pop(place)
        is_outdated = place in self._outdated
        self._outdated.discard(place)
        if response is None:
            self._on_outcome("failed")
            return
        self._on_outcome("answered")
        # One that is too large would displace all others, then itself.
        if is_outdated or response.size > self._max_bytes // SHARE:
            self._on_outcome("displaced")
            return
        shelf = self._shelves.setdefault(place.caller_id, _Shelf())
        shelf.put(place.name, _Entry(digest, response, self._clock() + self._seconds))
        while shelf.size > self._max_bytes // SHARE:
            self._displace(shelf)
        while self.size > self._max_bytes:
            self._displace(max(self._shelves.values(), key=lambda one: one.size))
        self._drop_empty()

    def _displace(self, shelf: _Shelf) -> None:
        shelf.drop_oldest()
        self._on_outcome("displaced")

    def _drop_expired(self) -> None:
        now = self._clock()
        for shelf in self._shelves.values():
            while shelf.entries and next(iter(shelf.entries.values())).until <= now:
                shelf.drop_oldest()
        self._drop_empty()

    def _drop_empty(self) -> None:
        for caller_id in [name for name, shelf in self._shelves.items() if not shelf.entries]:
            del self._shelves[caller_id]
