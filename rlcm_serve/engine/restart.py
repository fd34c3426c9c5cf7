"""When an engine that has died is started again."""

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
    """How an engine is watched, and how patiently it is started again. Times are in seconds.

    Attributes:
        every: between two looks at the engine.
        first_wait: before the first attempt to start it again; doubles with each that fails.
        longest_wait: before any attempt.
        attempts: that may fail in a row before the engine is given up.
        lasting: an engine that dies before it has run this long counts as one that failed to start.
        sleep: waits.
        clock: says what time it is.
        chance: draws from [0, 1), so that engines that died together do not start together.
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
        """Returns once the engine has died: whether it had lasted."""
        began = self.clock()
        while True:
            try:
                await engine.check_health()
            except EngineDead:
                return self.clock() - began >= self.lasting
            await self.sleep(self.every)

    def wait(self, failed: int) -> float:
        """Before the next attempt, after `failed` in a row: half to all of what has doubled."""
        longest = min(self.first_wait * 2.0**failed, self.longest_wait)
        return longest * (1 + self.chance()) / 2
