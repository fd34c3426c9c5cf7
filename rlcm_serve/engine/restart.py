"""When to restart an engine that has died."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.errors import EngineDead


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often to check an engine, and when to restart it. Times are in seconds.

    Attributes:
        every: time between two health checks.
        first_wait: longest wait before the first attempt to restart; doubles with every failure.
        longest_wait: longest wait before any attempt.
        attempts: failures in a row after which the service gives up on the engine.
        lasting: an engine that dies sooner than this after its start counts as a failed attempt.
        sleep: replaces `asyncio.sleep` in tests.
        clock: monotonic time.
        chance: random number in [0, 1), so that engines that died together restart apart.
    """

    every: float = 0.25
    first_wait: float = 1.0
    longest_wait: float = 30.0
    attempts: int = 10
    lasting: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    async def until_dead(self, engine: ReasoningEngine) -> bool:
        """Waits until the engine dies; returns whether it ran for at least `lasting`."""
        began = self.clock()
        while True:
            try:
                await engine.check_health()
            except EngineDead:
                return self.clock() - began >= self.lasting
            await self.sleep(self.every)

    def wait(self, failed: int) -> float:
        """Wait before the next attempt after `failed` failures: 50% to 100% of the doubled wait."""
        longest = min(self.first_wait * 2.0**failed, self.longest_wait)
        return longest * (1 + self.chance()) / 2
