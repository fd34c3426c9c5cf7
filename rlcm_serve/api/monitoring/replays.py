"""Replays rehearsed certificates on the answers of this process, beside the answering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from calibration import Certificate
from rlcm_serve.api.monitoring.comparisons import Comparisons, Place
from rlcm_serve.core import Solution
from rlcm_serve.evidence.rehearsal import Replayed, replayed
from rlcm_serve.monitoring.running.live import LiveMonitoring
from rlcm_serve.solving.shadow.background import stored
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.store.rehearsals.stored import RehearsedAnswer, StoredRehearsals

LARGEST = 500
"""Answers of one batch: one transaction."""
MOST_WAITING = 5_000
"""Answers that wait in memory; further ones are not rehearsed."""
PAUSE = 1.0
"""The longest wait in seconds for answers that are not stored yet."""
_CLOSING = 5.0
_log = logging.getLogger(__name__)


class Given(NamedTuple):
    """An answer that was given, and the certificates that were rehearsed at that time."""

    id: str
    certificates: tuple[Certificate, ...]
    prepared: Prepared
    solution: Solution
    place: Place


class Replays:
    """Takes each answer at once, and stores what levels would have done with it soon after.

    The replay of many levels and samples takes longer than an event loop may be held, so a thread
    does it. Belongs to one event loop.

    Args:
        monitoring: stores the answers.
        stored: takes the results.
        comparisons: are started once there is something to add their results to.
    """

    def __init__(
        self, monitoring: LiveMonitoring, stored: StoredRehearsals, comparisons: Comparisons
    ) -> None:
        self._monitoring, self._stored, self._comparisons = monitoring, stored, comparisons
        self._waiting: list[Given] = []
        self._working: asyncio.Task[None] | None = None

    def put(self, answer: Given) -> None:
        """Takes an answer, and keeps its place; returns at once."""
        if len(self._waiting) >= MOST_WAITING:
            _log.warning("the answer %s is not rehearsed: %d others wait", answer.id, MOST_WAITING)
            return
        answer.place.is_kept = True
        self._waiting.append(answer)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    async def written(self, seconds: float = PAUSE) -> None:
        """Returns once what waits is stored, or after this long."""
        if self._working is not None:
            await asyncio.wait({self._working}, timeout=seconds)

    async def close(self) -> None:
        """Stores what waits; gives up after some seconds."""
        await self.written(_CLOSING)
        if self._working is not None:
            self._working.cancel()
        if self._waiting:
            _log.error("%d answers were not rehearsed", len(self._waiting))

    async def _work(self) -> None:
        while batch := self._waiting[:LARGEST]:
            try:
                await self._store(batch)
            except Exception:  # nobody waits for it, and later answers come  # noqa: BLE001
                _log.exception("%d answers were not rehearsed", len(batch))
                for one in batch:
                    self._comparisons.free(one.place)
            del self._waiting[: len(batch)]

    async def _store(self, batch: Sequence[Given]) -> None:
        levels = await asyncio.to_thread(_all, batch)
        found = [
            RehearsedAnswer(one.id, one.place.is_held, tuple(levels[one.id]))
            for one in batch
            if levels[one.id]
        ]
        kept = await self._add(found) if found else set()
        for one in batch:
            known = levels[one.id] if one.id in kept else []
            self._comparisons.start(one.place, one.id, one.prepared, one.solution, known)

    async def _add(self, found: Sequence[RehearsedAnswer]) -> set[str]:
        """Stores the results of answers once they are stored; returns the ids of those."""
        kept: set[str] = set()

        async def write() -> bool:
            await self._monitoring.writer.written(PAUSE)
            left = [one for one in found if one.id not in kept]
            kept.update(await self._monitoring.threads.write(self._stored.add, left))
            return len(kept) == len(found)

        await stored(write, f"the rehearsal of some of {len(found)} answers")
        return kept


def _all(batch: Sequence[Given]) -> dict[str, list[Replayed]]:
    """What the levels would have done with each answer, by its id."""
    return {answer.id: _one(answer) for answer in batch}


def _one(answer: Given) -> list[Replayed]:
    try:
        return [
            level
            for certificate in answer.certificates
            for level in replayed(certificate, answer.prepared, answer.solution)
        ]
    except Exception:  # the answer was given  # noqa: BLE001
        _log.exception("the answer %s is not rehearsed", answer.id)
        return []
