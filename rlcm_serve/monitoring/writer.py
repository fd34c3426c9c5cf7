"""Writes answers to the store in batches, beside the answering."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from rlcm_serve.errors import DatabaseBusy, DatabaseRefused
from rlcm_serve.monitoring.records import GivenAnswer

LINGER = 0.1
"""Seconds for which a batch waits for more answers."""
LARGEST = 500
"""Answers of one batch: one transaction."""
PAUSE = 1.0
"""Seconds after a failed write."""
MOST_WAITING = 20_000
"""Answers that wait in memory while the store cannot be written; beyond it, the oldest are lost."""
_CLOSING = 5.0

Write = Callable[[Sequence[GivenAnswer]], Awaitable[None]]
_log = logging.getLogger(__name__)


class AnswerWriter:
    """Takes each answer at once, and writes it within a second. Belongs to one event loop.

    An answer does not wait for its row. If the process is killed in between, the row is missing,
    and a label of it is of an unknown answer.

    Args:
        write: stores a batch as a whole or not at all.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: list[GivenAnswer] = []
        self._writing: asyncio.Task[None] | None = None
        self._batch_over = asyncio.Event()
        self.lost = 0
        """Answers that were given up because the store could not be written for long."""

    def put(self, answer: GivenAnswer) -> None:
        """Takes an answer; returns at once."""
        self._waiting.append(answer)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[0]
            self.lost += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._work())

    def oldest(self) -> float:
        """When the oldest question was asked whose answer is not stored yet; else infinity.

        May be called from any thread.
        """
        return min((answer.started for answer in list(self._waiting)), default=math.inf)

    async def written(self, seconds: float = _CLOSING) -> None:
        """Returns once all answers are stored that were taken before, or after this long."""
        before = {answer.id for answer in self._waiting}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while before.intersection(answer.id for answer in self._waiting):
                    await self._batch_over.wait()

    async def close(self) -> None:
        """Writes what waits; gives up after some seconds."""
        await self.written()
        if self._writing is not None:
            self._writing.cancel()
        if self._waiting:
            _log.error("%d answers were not stored for monitoring", len(self._waiting))

    async def _work(self) -> None:
        has_failed = False
        await asyncio.sleep(LINGER)
        while batch := self._waiting[:LARGEST]:
            try:
                await self._write(batch)
            except DatabaseRefused as error:
                if not has_failed:
                    level = logging.WARNING if isinstance(error, DatabaseBusy) else logging.ERROR
                    said = "answers cannot be stored for monitoring, trying again: %s"
                    _log.log(level, said, error)
                has_failed = True
                await asyncio.sleep(PAUSE)
                continue
            written = {answer.id for answer in batch}
            self._waiting = [one for one in self._waiting if one.id not in written]
            self._batch_over.set()  # wakes all who wait now
            self._batch_over.clear()
            if has_failed:
                _log.info("answers are stored again; %d were lost", self.lost)
            has_failed = False
