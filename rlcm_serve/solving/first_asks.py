"""A guarantee is for the first ask of a question; this finds the asks that are not.

A risk is an average over questions that are drawn from one population. Whoever asks a question
again because it was declined has chosen it by its own result: such questions are harder than the
average, and no certified level bounds the share of wrong answers among them.

**Covered.** A caller may ask each question of the population as often as wished, with parameters
that depend on everything seen so far, as long as the first alpha of a question does not depend on
the question itself. Then the first asks at one alpha are draws of the population. If that level
holds, at most a share alpha of their answers is wrong on average. An ask gets no guarantee if an
earlier ask of the question is still running or ended without an answer. So a question whose first
ask was declined never has an answer under a guarantee, and with every question counted once, by the
first answer under a guarantee, the bound holds whatever the caller does later.

**Not covered.** Other words for the same question and asks under another key or profile are not
recognised, and neither are asks that run in two processes at the same moment. An earlier answer
without a guarantee is not remembered, nor an ask that is longer ago than the memory lasts. Of
several answers to one question the bound is for the first, and not for one that the caller picks.

**Without any memory** a weaker bound holds. Let a caller ask a question at alphas fixed in advance
until it is answered. Let A_k be the event that ask k would be answered, and W_k that its answer
would be wrong, with any dependence between asks. The wrong answers are among the W_k, the answered
questions are the union of the A_k, and P(W_k) <= alpha_k P(A_k) <= alpha_k P(answered). So the
share of wrong answers is at most the sum of the alphas.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rlcm_serve.core import NoGuarantee, Solution
from rlcm_serve.errors import DatabaseRefused, OutOfTime, WorkerFailed
from rlcm_serve.solving.solver import Prepared
from rlcm_serve.solving.unanswered import UnansweredQuestions

PATIENCE = 5.0
"""Longest time in seconds that a question waits for the memory, before it begins and at its end."""
MOST_UNSTORED = 10_000
"""Questions that a process keeps because they could not be stored; beyond it, the oldest go."""
_ADVICE = (
    "a guarantee is for the first ask of a question, because questions on which the service "
    "abstained are harder than the average; ask once, with the largest alpha that you accept"
)
_log = logging.getLogger(__name__)

_Recognised = tuple[str | None, bytes]
"""Id of the key, and digest of the question."""


@dataclass(slots=True)
class Ask:
    """One ask of a question.

    Attributes:
        prepared: the question, without a guarantee if this is not its first ask.
        solution: to be set at the end; None if the caller got none.
        storing: writes that it ended without an answer; None if it did not.
    """

    prepared: Prepared
    solution: Solution | None = None
    storing: asyncio.Task[None] | None = None

    async def remembered(self) -> None:
        """Waits until all processes know how the ask ended, at most `PATIENCE` seconds.

        Wait for it before the caller learns the end, and after the ask has given back its place.
        """
        if self.storing is not None:
            await asyncio.wait({self.storing}, timeout=PATIENCE)


class FirstAsks:
    """Withholds the guarantee from every ask of a question that follows one without an answer.

    Args:
        unanswered: remembers the questions whose asks have ended without an answer.
    """

    def __init__(self, unanswered: UnansweredQuestions) -> None:
        self._unanswered = unanswered
        self._running: Counter[_Recognised] = Counter()
        self._unstored: dict[_Recognised, float] = {}
        self._storing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def ask(
        self, prepared: Prepared, digest: bytes, key_id: str | None = None
    ) -> AsyncIterator[Ask]:
        """One ask, from before its first token until its end.

        It counts as unanswered if it ends with an abstention, or is cancelled, or exceeds its time
        limit, or if its answers stopped the process that compares them. It does not if the service
        failed for another reason.

        Args:
            prepared: the question with its terms.
            digest: of the question, by `digest_of_ask`.
            key_id: of the caller; callers without a key are one caller.
        """
        if prepared.terms.policy is None:  # no sample runs, so nothing is learned of the question
            yield Ask(prepared)
            return
        recognised = key_id, digest
        others_run = self._running[recognised] > 0
        self._running[recognised] += 1
        ask, is_unanswered = Ask(prepared), False
        try:
            if prepared.terms.guarantee is not None:
                why = _RUNNING if others_run else await self._why_not_first(recognised)
                ask.prepared = _withheld(prepared, why)
            yield ask
            is_unanswered = ask.solution is None or _is_unanswered(ask.solution)
        except (asyncio.CancelledError, OutOfTime, WorkerFailed):
            is_unanswered = True
            raise
        finally:
            if is_unanswered:
                self._unstored[recognised] = time.time()
            self._running[recognised] -= 1
            if not self._running[recognised]:
                del self._running[recognised]
            if is_unanswered:
                ask.storing = self._store(recognised)

    async def close(self) -> None:
        """Waits for unfinished writes."""
        await asyncio.gather(*self._storing, return_exceptions=True)

    async def _why_not_first(self, recognised: _Recognised) -> str | None:
        """Why this is not the first ask of the question; None if it is."""
        asked = self._unstored.get(recognised)
        if asked is None:
            try:
                async with asyncio.timeout(PATIENCE):
                    asked = await self._unanswered.find(*recognised)
            except DatabaseRefused as error:
                return _unknown(error.public)
            except TimeoutError:
                return _unknown(f"the database did not answer within {PATIENCE:g} s")
        until = None if asked is None else asked + self._unanswered.limit
        if asked is None or until is None or until <= time.time():
            return None
        return _declined(asked, until)

    def _store(self, recognised: _Recognised) -> asyncio.Task[None]:
        """Stores an unanswered question in the background."""
        while len(self._unstored) > MOST_UNSTORED:
            del self._unstored[next(iter(self._unstored))]
        storing = asyncio.create_task(self._add(recognised))
        self._storing.add(storing)
        storing.add_done_callback(self._stored)
        return storing

    async def _add(self, recognised: _Recognised) -> None:
        await self._unanswered.add(*recognised)
        self._unstored.pop(recognised, None)

    def _stored(self, storing: asyncio.Task[None]) -> None:
        self._storing.discard(storing)
        if not storing.cancelled() and (error := storing.exception()):
            _log.error("an unanswered question is known to this process alone: %s", error)


def _is_unanswered(solution: Solution) -> bool:
    """Whether it abstains for what its samples did, and not for the prompt alone."""
    return solution.abstained and solution.exit is not None


def _withheld(prepared: Prepared, why: str | None) -> Prepared:
    """The question without its guarantee, if there is a reason."""
    if why is None:
        return prepared
    terms = prepared.terms.without(why, NoGuarantee.ASKED_BEFORE)
    return replace(prepared, terms=terms)


_RUNNING = f"another ask of the same question is still running: {_ADVICE}"


def _declined(asked: float, until: float) -> str:
    again = "" if until == float("inf") else f"; from {_moment(until)} on it counts as new"
    return f"the question was asked before and not answered ({_moment(asked)}): {_ADVICE}{again}"


def _unknown(cause: str) -> str:
    return f"nobody knows whether the service abstained before, because {cause}: ask again later"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
