"""Limits on requests and tokens per minute, for all processes together.

A process takes small shares out of the bucket of a key (`Budgets`) and spends them by itself, so
that not every question asks the others. When a question starts, as many tokens are spent as its
key's questions cost on average; this is set right when it ends. What is spent beyond a share is
settled with the bucket soon after, and before another question of the key enters here.

**What holds.** A process grants more than one bucket would only by its share, at most `SHARE` of a
limit, and by tokens that were spent within `PAUSE`. What a killed process had taken is lost to the
key. While the buckets cannot be reached, each process counts by itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rlcm_serve.admission.budgets import MINUTE, ROUNDING, Budgets, Claim, Settled, TokenBucket
from rlcm_serve.errors import DatabaseRefused, RateLimited

SHARE = 1 / 200
"""Part of a limit that a process takes at once; at least one request or token."""
PAUSE = 0.5
"""Seconds for which settlements that nobody waits for are put together."""
RETRY = 1.0
"""Seconds for which a process counts by itself after it could not reach the buckets."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rates:
    """Limits of one key per minute; None is no limit."""

    requests: float | None = None
    tokens: float | None = None


class Share:
    """What this process has taken out of a bucket.

    Attributes:
        bucket: as this process knows it: its level when they last settled, filled since.
        held: taken and not spent; below zero, spent and not settled.
        waiting: requests that wait for a settlement.
    """

    def __init__(self, key_id: str, kind: str, bucket: TokenBucket) -> None:
        self.key_id, self.kind, self.bucket = key_id, kind, bucket
        self.held, self.waiting = 0.0, 0
        self.size = max(1.0, bucket.per_minute * SHARE)

    @property
    def level(self) -> float:
        """What the key may still spend, as far as this process knows."""
        return self.bucket.level + self.held

    @property
    def is_even(self) -> bool:
        """Whether there is nothing to settle."""
        return 0 <= self.held <= 2 * self.size

    def is_spent(self) -> bool:
        """Whether nothing is held for one more request."""
        return self.held < 1 - ROUNDING

    def seconds(self) -> float:
        """Seconds until the bucket grants one more request, if others spend nothing; 0 if owing."""
        seconds = self.bucket.seconds_until(1)
        return seconds if seconds > ROUNDING and self.held >= 0 else 0.0

    def claim(self, target: float) -> Claim:
        """What brings the share to `target`, if the bucket holds so much."""
        owed = -self.held if self.held < 0 else min(0.0, target - self.held)
        wanted = max(0.0, target - max(self.held, 0.0))
        return Claim(self.key_id, self.kind, self.bucket.per_minute, owed, wanted)

    def settle(self, claim: Claim, settled: Settled) -> None:
        """Takes note of a claim that was settled; more may have been spent meanwhile."""
        self.held += claim.owed + settled.granted
        self.bucket.level = settled.level


class RateLimits:
    """The limits of all keys. Belongs to one event loop.

    Args:
        budgets: the buckets that processes share; None keeps them in this process, and a restart
            fills them.
        clock: time in seconds.
    """

    def __init__(
        self, budgets: Budgets | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._budgets, self._clock = budgets, clock
        self._shares: dict[str, dict[str, Share]] = {}
        self._due: set[Share] = set()  # requests wait for them
        self._uneven: set[Share] = set()  # nobody does
        self._turn = asyncio.Lock()
        self._failed_at = -math.inf
        self._later: asyncio.Task[None] | None = None

    async def enter(self, key_id: str, rates: Rates) -> None:
        """Counts a request.

        Raises:
            RateLimited: the key has spent its requests or tokens; the request is not counted.
        """
        shares = self._of(key_id, rates)
        while short := [share for share in shares.values() if share.is_spent()]:
            for share in short:
                if seconds := share.seconds():
                    raise RateLimited(share.kind, round(share.bucket.per_minute), seconds)
            await self._settled(short)
        if "requests" in shares:
            shares["requests"].held -= 1

    def spend(self, key_id: str | None, tokens: float) -> None:
        """Counts tokens; a negative number is given back."""
        share = self._shares.get(key_id or "", {}).get("tokens")
        if share is None:
            return
        share.held -= tokens
        if share.is_even:
            return
        self._uneven.add(share)
        if self._later is None:
            self._later = asyncio.create_task(self._settle_later())

    def headers(self, key_id: str, rates: Rates) -> dict[str, str]:
        """What is left, in the headers of OpenAI's API; only of kinds with a limit."""
        found = {}
        for kind, share in self._of(key_id, rates).items():
            limit, level = share.bucket.per_minute, share.level
            found[f"x-ratelimit-limit-{kind}"] = str(round(limit))
            found[f"x-ratelimit-remaining-{kind}"] = str(max(0, math.floor(level + ROUNDING)))
            reset = (limit - level) * MINUTE / limit
            found[f"x-ratelimit-reset-{kind}"] = duration(max(0.0, reset))
        return found

    async def close(self) -> None:
        """Settles everything, and gives back what is held."""
        if self._later is not None:
            self._later.cancel()
        every = [share for shares in self._shares.values() for share in shares.values()]
        await self._settle([share for share in every if share.held], keep=False)

    async def _settled(self, shares: Iterable[Share]) -> None:
        """Returns once these shares were settled after now, together with those of others."""
        due = {*shares}
        for share in due:
            share.waiting += 1
        self._due |= due
        try:
            async with self._turn:  # what comes meanwhile is settled together in the next turn
                if due & self._due:
                    batch = self._due | self._uneven
                    self._due, self._uneven = set(), set()
                    # A request that leaves must not take along what was granted to others.
                    await asyncio.shield(asyncio.create_task(self._settle(batch)))
        finally:
            for share in due:
                share.waiting -= 1

    async def _settle_later(self) -> None:
        await asyncio.sleep(PAUSE)
        self._later = None
        async with self._turn:
            batch, self._uneven = self._uneven, set()
            await self._settle([share for share in batch if not share.is_even])

    async def _settle(self, shares: Iterable[Share], *, keep: bool = True) -> None:
        claims = {
            share: share.claim(max(share.size, share.waiting) if keep else 0.0) for share in shares
        }
        settled = await self._ask(list(claims.values()))
        for (share, claim), one in zip(claims.items(), settled, strict=True):
            share.settle(claim, one)

    async def _ask(self, claims: list[Claim]) -> list[Settled]:
        if claims and self._budgets is not None and self._clock() - self._failed_at > RETRY:
            try:
                settled = await self._budgets.settle(claims)
            except DatabaseRefused as error:
                if self._failed_at == -math.inf:
                    _log.error("limits per minute are counted by this process alone: %s", error)
                self._failed_at = self._clock()
            else:
                self._failed_at = -math.inf
                return settled
        levels = (self._shares[one.key_id][one.kind].bucket.level for one in claims)
        return [claim.settle(level) for claim, level in zip(claims, levels, strict=True)]

    def _of(self, key_id: str, rates: Rates) -> dict[str, Share]:
        if key_id not in self._shares:
            limits = {"requests": rates.requests, "tokens": rates.tokens}
            self._shares[key_id] = {
                kind: Share(key_id, kind, TokenBucket(limit, self._clock))
                for kind, limit in limits.items()
                if limit
            }
        return self._shares[key_id]


def duration(seconds: float) -> str:
    """Seconds as OpenAI writes them: `0s`, `120ms`, `7.5s`, `1m30s`."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    if milliseconds <= 1000 * (MINUTE - 1):
        return f"{milliseconds / 1000:.2f}".rstrip("0").rstrip(".") + "s"
    minutes, rest = divmod(math.ceil(milliseconds / 1000), MINUTE)
    return f"{minutes:.0f}m{rest:.0f}s"
