"""Work beside callers' questions, which nobody waits for. Ends with the service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

from rlcm_serve.errors import DatabaseRefused

_CLOSING = 5.0
"""Seconds in which tasks that are ended must store what is known."""
TRIES = 60
"""Attempts to store something."""
PAUSE = 1.0
"""Seconds after an attempt that failed."""
_log = logging.getLogger(__name__)


class BackgroundTasks:
    """Tasks that run until the service stops. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Starts a task and returns at once."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancels all tasks and waits for them, a few seconds at most."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)


@asynccontextmanager
async def attempt(name: str, limit: float) -> AsyncIterator[None]:
    """Ends what stands inside after a limit of seconds, and logs why it failed, under its name.

    What comes after it runs in any case, so that a result which is missing can be stored as such:
    also where the service stops, which is not logged.
    """
    timeout = asyncio.timeout(limit)
    try:
        async with timeout:
            yield
    except asyncio.CancelledError:
        pass
    except Exception as error:  # nobody else is told  # noqa: BLE001
        late = f"it took over {limit:g} s"
        why = late if timeout.expired() else str(error) or type(error).__name__
        _log.warning("%s gave no result: %s", name, why)


async def stored(write: Callable[[], Awaitable[bool]], what: str) -> None:
    """Returns once something is stored; gives up after a minute, and logs that, under its name.

    Args:
        write: says whether all is stored now. It is called again where it is not, and where the
            database refuses.
        what: the name.
    """
    for _ in range(TRIES):
        with suppress(DatabaseRefused):  # the writer of answers says so
            if await write():
                return
        await asyncio.sleep(PAUSE)
    _log.error("%s was not stored", what)
