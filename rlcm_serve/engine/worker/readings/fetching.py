"""Brings readings to the front end where it shares no memory with vLLM's workers.

Each worker writes into a table in its own memory. The front end asks for what is new through
vLLM's own channel, which reaches every worker that vLLM's outputs come from. A worker had written
a reading before the token that settles it was sent, so what is asked for after that token is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import numpy.typing as npt

from rlcm_serve.engine.worker.readings.parcels import Parcel, Wanted, unpack
from rlcm_serve.errors import EngineDead

Ticket = tuple[int, int]
"""A slot and the ticket of the request that had it."""
Ask = Callable[[Sequence[Wanted], Sequence[Ticket]], Awaitable[Sequence[Parcel | None]]]
"""Asks the workers for some slots, and tells them which requests have ended."""


class Fetcher:
    """Copies slots from the workers into the front end's table.

    One question is under way at a time. Whoever comes meanwhile is in the next one, so that a busy
    engine is asked at most once a step.
    """

    def __init__(self, rows: npt.NDArray[np.void], ask: Ask) -> None:
        self._rows, self._ask = rows, ask
        self._waiting: list[tuple[Wanted, asyncio.Future[None]]] = []
        self._released: list[Ticket] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def fetch(self, wanted: Wanted) -> None:
        """Returns when the front end's slot has all that the worker had written before.

        Raises:
            EngineDead: vLLM died.
        """
        if self._closed:
            raise EngineDead("the engine died before it returned a reading")
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask_for_all())
        await answer

    def release(self, slot: int, ticket: int) -> None:
        """The request has ended; the workers hear of it with the next question."""
        self._released.append((slot, ticket))

    def close(self) -> None:
        """Every waiting task gets `EngineDead`."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._fail(self._waiting, "the engine died before it returned a reading")

    async def _ask_for_all(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, []
            released, self._released = self._released, []
            try:
                parcels = await self._ask([wanted for wanted, _ in asked], released)
            except asyncio.CancelledError:
                self._fail(asked, "the engine died before it returned a reading")
                raise
            # vLLM has died, or a worker failed, of which vLLM gives the message alone.
            except Exception as error:  # noqa: BLE001
                self._fail(asked, f"vLLM could not return a reading: {error}")
                continue
            for (wanted, answer), parcel in zip(asked, parcels, strict=True):
                row = self._rows[wanted.slot]
                if parcel is not None and row["ticket"] == wanted.ticket:
                    unpack(row, wanted, parcel)
                if not answer.done():
                    answer.set_result(None)

    @staticmethod
    def _fail(asked: Sequence[tuple[Wanted, asyncio.Future[None]]], why: str) -> None:
        for _, answer in asked:
            if not answer.done():
                answer.set_exception(EngineDead(why))
