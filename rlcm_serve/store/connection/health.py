"""Whether a database can be used now, for readiness."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from rlcm_serve.errors import DatabaseRefused
from rlcm_serve.store.connection.threads import StoreThreads

FRESH = 1.0
"""Seconds for which an answer is kept, however often it is asked for."""
LONGEST = 2.0
"""Seconds after which a database that does not answer counts as unusable."""
_log = logging.getLogger(__name__)


class DatabaseHealth:
    """Asks the database whether it works. Belongs to one event loop.

    Args:
        check: returns if it works; raises DatabaseRefused if not.
        threads: run the check.
    """

    def __init__(self, check: Callable[[], None], threads: StoreThreads) -> None:
        self._check = check
        self._threads = threads
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._fault: str | None = None

    async def fault(self) -> str | None:
        """What is wrong, in a sentence for callers; None if nothing is."""
        async with self._asking:
            if time.monotonic() - self._asked_at > FRESH:
                self._fault = await self._ask()
                self._asked_at = time.monotonic()
        return self._fault

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(LONGEST):
                await self._threads.check(self._check)
        except TimeoutError:
            return f"the database did not answer within {LONGEST:g} s"
        except DatabaseRefused as error:
            if self._fault != error.public:
                _log.error("%s", error)
            return error.public
        return None
