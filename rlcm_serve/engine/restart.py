"""When an engine that died or hangs is noticed, and when it is restarted."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.errors import EngineDead

_CANARY_AFTER = 0.25
"""Share of `RestartPolicy.hang` after which a silent engine is asked for one token."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Death:
    """The end of an engine: whether it had run for at least `lasting`, and whether it hung."""

    lasted: bool
    hung: bool


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often to check an engine, and when to restart it. Times are in seconds.

    Attributes:
        every: time between two health checks.
        hang: an engine that has produced nothing for so long hangs, and is killed.
        first_wait: longest wait before the first attempt to restart; doubles with every failure.
        longest_wait: longest wait before any attempt.
        attempts: failures in a row after which the service gives up on the engine; 0: at once.
        lasting: an engine that dies sooner than this after its start counts as a failed attempt.
        sleep: replaces `asyncio.sleep` in tests.
        clock: monotonic time.
        chance: random number in [0, 1), so that engines that died together restart apart.
    """

    every: float = 0.25
    hang: float = 120.0
    first_wait: float = 1.0
    longest_wait: float = 30.0
    attempts: int = 10
    lasting: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    async def until_dead(self, engine: ReasoningEngine) -> Death:
        """Waits until the engine dies or hangs; one that hangs is killed."""
        began, hung = self.clock(), False
        silence = Silence(engine, self.hang)
        try:
            while True:
                try:
                    await engine.check_health()
                except EngineDead:
                    return Death(self.clock() - began >= self.lasting, hung)
                if silence.is_too_long():
                    hung = True
                    engine.kill(
                        f"the engine hung: it produced nothing for {self.hang:g} s, although it "
                        "was asked for a token; it was killed"
                    )
                    continue
                await self.sleep(self.every)
                silence.goes_on(self.every)
        finally:
            silence.end()

    def wait(self, failed: int) -> float:
        """Wait before the next attempt after `failed` failures: 50% to 100% of the doubled wait."""
        longest = min(self.first_wait * 2.0**failed, self.longest_wait)
        return longest * (1 + self.chance()) / 2


class Silence:
    """How long an engine has produced nothing, for any request.

    A silent engine may only be idle. So after a quarter of the limit it is asked for one token (the
    canary), which may wait as long as is left. Output for any other request ends the silence too:
    an engine with a full queue is not asked.

    Time is the sum of the waits between two looks, not a clock's: a service that was itself
    suspended must not conclude that its engine hangs.
    """

    def __init__(self, engine: ReasoningEngine, limit: float) -> None:
        self._engine, self._limit = engine, limit
        self._outputs = engine.outputs
        self._seconds = 0.0
        self._canary: asyncio.Task[None] | None = None

    def goes_on(self, seconds: float) -> None:
        """Counts these seconds, unless there was an output in them."""
        if self._engine.outputs != self._outputs or self._canary_failed():
            self._outputs = self._engine.outputs
            self._seconds = 0.0
            self.end()
            return
        self._seconds += seconds
        if self._canary is None and self._seconds >= _CANARY_AFTER * self._limit:
            self._canary = asyncio.create_task(self._engine.canary())

    def is_too_long(self) -> bool:
        """Whether the silence has reached the limit."""
        return self._seconds >= self._limit

    def end(self) -> None:
        """Withdraws the canary."""
        if self._canary is not None:
            self._canary.cancel()
            self._canary = None

    def _canary_failed(self) -> bool:
        """Whether the canary could not be asked: that says nothing about the engine."""
        if self._canary is None or not self._canary.done() or self._canary.cancelled():
            return False
        error = self._canary.exception()
        if error is None or isinstance(error, EngineDead):
            return False
        _log.error("the engine could not be asked for a token", exc_info=error)
        return True
