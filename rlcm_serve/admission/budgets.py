"""What keys may still spend of their limits, as token buckets.

A bucket holds what a key may spend at once, and fills at an even rate (as in RFC 2697). It may owe
tokens; then its key waits until it has filled again. Processes take shares out of common buckets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

MINUTE = 60.0
ROUNDING = 1e-6
"""Seconds of flow that a bucket may lack, because levels are floating-point numbers."""


class TokenBucket:
    """What may still be spent.

    Args:
        per_minute: what flows in per minute, and the most that the bucket holds.
        clock: time in seconds.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float]) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._level, self._at = float(per_minute), clock()

    @property
    def level(self) -> float:
        """What may be spent now; below zero it is owed."""
        now = self._clock()
        self._level, self._at = filled(self._level, now - self._at, self.per_minute), now
        return self._level

    @level.setter
    def level(self, level: float) -> None:
        self._level, self._at = level, self._clock()

    def spend(self, amount: float) -> None:
        """Takes out an amount, also more than there is; a negative one is given back."""
        self.level = min(self.per_minute, self.level - amount)

    def seconds_until(self, level: float) -> float:
        """Seconds until the bucket has filled to this level."""
        return max(0.0, level - self.level) * MINUTE / self.per_minute


def filled(level: float, seconds: float, per_minute: float) -> float:
    """The level of a bucket some seconds later."""
    return min(per_minute, level + max(seconds, 0.0) * per_minute / MINUTE)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a process tells the bucket of a key, and asks of it.

    Attributes:
        key_id: whose bucket it is.
        kind: `requests` or `tokens`.
        per_minute: the limit.
        owed: what was spent beyond the shares taken before; below zero, what is given back.
        wanted: the share to take now, if the bucket holds so much.
    """

    key_id: str
    kind: str
    per_minute: float
    owed: float
    wanted: float

    def settle(self, level: float) -> Settled:
        """What a bucket at this level grants, and what it holds then; shares are whole."""
        level = min(self.per_minute, level - self.owed)
        rounding = 2 * ROUNDING * self.per_minute / MINUTE
        granted = min(self.wanted, max(0.0, math.floor(level + rounding)))
        return Settled(granted, level - granted)


@dataclass(frozen=True, slots=True)
class Settled:
    """The share that a claim was granted, and the level of the bucket after it."""

    granted: float
    level: float


class Budgets(Protocol):
    """The buckets of all keys, for all processes that share them."""

    async def settle(self, claims: Sequence[Claim]) -> list[Settled]:
        """What each claim was granted, in their order. Each key and kind occurs at most once.

        Raises:
            DatabaseRefused: the buckets cannot be reached; nothing has changed.
        """
        ...
