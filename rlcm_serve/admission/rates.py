"""Limits on requests and tokens per minute, as token buckets.

A bucket holds what a key may spend at once, and fills at an even rate (as in RFC 2697). When a
question starts, as many tokens are spent as its key's questions cost on average; this is set right
when it ends. So a bucket may owe tokens, and then its key waits until it has filled again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from rlcm_serve.errors import RateLimited

MINUTE = 60.0
_ROUNDING = 1e-6


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
        flowed = (now - self._at) * self.per_minute / MINUTE
        self._level, self._at = min(self.per_minute, self._level + flowed), now
        return self._level

    def spend(self, amount: float) -> None:
        """Takes out an amount, also more than there is; a negative one is given back."""
        self._level = min(self.per_minute, self.level - amount)

    def seconds_until(self, level: float) -> float:
        """Seconds until the bucket has filled to this level."""
        return max(0.0, level - self.level) * MINUTE / self.per_minute


@dataclass(frozen=True, slots=True)
class Rates:
    """Limits of one key per minute; None is no limit."""

    requests: float | None = None
    tokens: float | None = None


class RateLimits:
    """The buckets of all keys, in memory: a restart fills them.

    Args:
        clock: time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, dict[str, TokenBucket]] = {}

    def enter(self, key_id: str, rates: Rates) -> None:
        """Counts a request.

        Raises:
            RateLimited: the key has spent its requests or tokens; the request is not counted.
        """
        buckets = self._of(key_id, rates)
        for kind, bucket in buckets.items():
            if bucket.seconds_until(1) > _ROUNDING:
                seconds = bucket.seconds_until(1)
                raise RateLimited(kind, round(bucket.per_minute), seconds)
        if "requests" in buckets:
            buckets["requests"].spend(1)

    def spend(self, key_id: str | None, tokens: float) -> None:
        """Counts tokens; a negative number is given back."""
        bucket = self._buckets.get(key_id or "", {}).get("tokens")
        if bucket is not None:
            bucket.spend(tokens)

    def headers(self, key_id: str, rates: Rates) -> dict[str, str]:
        """What is left, in the headers of OpenAI's API; only of kinds with a limit."""
        found = {}
        for kind, bucket in self._of(key_id, rates).items():
            found[f"x-ratelimit-limit-{kind}"] = str(round(bucket.per_minute))
            found[f"x-ratelimit-remaining-{kind}"] = str(max(0, math.floor(bucket.level)))
            reset = bucket.seconds_until(bucket.per_minute)
            found[f"x-ratelimit-reset-{kind}"] = duration(reset)
        return found

    def _of(self, key_id: str, rates: Rates) -> dict[str, TokenBucket]:
        if key_id not in self._buckets:
            limits = {"requests": rates.requests, "tokens": rates.tokens}
            self._buckets[key_id] = {
                kind: TokenBucket(limit, self._clock) for kind, limit in limits.items() if limit
            }
        return self._buckets[key_id]


def duration(seconds: float) -> str:
    """Seconds as OpenAI writes them: `0s`, `120ms`, `7.5s`, `1m30s`."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(round(milliseconds / 1000, 2), MINUTE)
    return f"{minutes:.0f}m{rest:.0f}s" if minutes else f"{rest:g}s"
