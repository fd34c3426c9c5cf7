"""Passes a caller's question to the solver; shared by all routes that answer questions."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from rlcm_serve.admission import Place
from rlcm_serve.admission.time_limit import in_time
from rlcm_serve.api.access import cap_question, tenant_of
from rlcm_serve.api.context import Context
from rlcm_serve.api.monitoring.rehearsals import place_for
from rlcm_serve.api.monitoring.shadows import drawn_for, run_on
from rlcm_serve.core import Question, Solution
from rlcm_serve.events import Event, OnEvent, ignore_event
from rlcm_serve.evidence.records import Answered
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.solver import OnStart, Prepared, Solver, begin_quietly
from rlcm_serve.solving.unanswered import digest_of_ask
from rlcm_serve.store.caller import Caller
from rlcm_serve.telemetry.question import observe

_MESSAGE = 64
"""Characters that take as long to encode as a message without any."""

_BATCH = 64
"""Most events in a batch: a reader may be slow, and thousands would hold the event loop."""

Result = TypeVar("Result")


async def ask(
    context: Context,
    caller: Caller,
    question: Question,
    on_start: OnStart = begin_quietly,
    on_event: OnEvent = ignore_event,
    *,
    text: bool = False,
    since: float | None = None,
    id_: str = "",
) -> Solution:
    """Answers a question within the caller's limits, as soon as there is capacity.

    Args:
        context: of the server.
        caller: the owner of the key.
        question: the question with its options.
        on_start: called when answering begins, with its final terms; after that the question is not
            refused.
        on_event: called with each event after the start.
        text: whether events include the generated text.
        since: when its time began, on the event loop's clock; now by default.
        id_: of the answer, for its record.

    Raises:
        EvidenceUnavailable: the answer must have a record, and none can be written.
        Overloaded, NotReady: there is no capacity for the question.
        Infeasible, RequestRefused, EngineDead, OutOfTime: as `Solver.solve`.
    """
    if context.evidence is not None:
        context.evidence.require_writable()
    solver = context.service.solver
    budget = solver.guarantees.identity_for(question).budget
    question = cap_question(caller, context.settings, question, budget.thinking)
    solver.engine.require_room(question.messages)
    if not context.settings.cancel_decided:
        question = replace(question, stop_when_decided=False)
    with (
        _in_flight(context) as asked_at,
        observe(
            question,
            context.metrics,
            context.tracing,
            key_id=caller.key_id,
            answer_id=id_,
            log_prompts=context.settings.log_prompts,
        ) as observed,
        drawn_for(context, id_) as claim,
        place_for(context, id_, caller.key_id, question) as place_to_compare,
    ):
        async with (
            AsyncExitStack() as at_end,
            in_time(question.timeout, since) as limit,
            _place(context, caller) as place,
        ):
            solver = context.service.solver
            size = question.characters + _MESSAGE * len(question.messages)
            salt = context.cache_salts.of(caller.key_id, caller.cache_group)
            prepare = functools.partial(_prepare, solver, question, salt)
            place.cost = 0.0  # a question that is refused costs nothing
            prepared, digest = await context.workers.run(caller.key_id, size, prepare)
            place.cost = None
            async with context.first_asks.ask(prepared, digest, caller.key_id) as asked:
                at_end.push_async_callback(asked.remembered)
                limit.guarantee = asked.prepared.terms.guarantee
                solution = asked.solution = await solver.run(
                    asked.prepared, observed.passing_on(on_event), text=text, on_start=on_start
                )
                solution = context.service.given_now(solution)
            place.cost = solution.total_tokens
        if context.evidence is not None:
            await context.evidence.keep(_answered(solver, caller, id_, asked.prepared, solution))
        if context.monitoring is not None:
            digest_of = _digests(solver)
            shadow = run_on(context, claim, asked.prepared, solution)
            solution = context.monitoring.given(
                id_,
                caller.key_id,
                question,
                digest,
                solution,
                digest_of,
                asked_at,
                shadow,
                departs=bool(asked.prepared.terms.asked.departures),
                under=solver.guarantees.served_under[solution.profile],
            )
            if context.rehearsals is not None and place_to_compare is not None:
                context.rehearsals.given(place_to_compare, id_, asked.prepared, solution)
        observed.solved(solution)
    return solution


def _in_flight(context: Context) -> AbstractContextManager[float]:
    """Tells monitoring that a question is being answered; when it was asked, Unix time."""
    if context.monitoring is None:
        return nullcontext(time.time())
    return context.monitoring.in_flight.question()


def _prepare(solver: Solver, question: Question, salt: str) -> tuple[Prepared, bytes]:
    """The question as the engine takes it, and the digest by which it is recognised again."""
    prepared = solver.prepare(question, cache_salt=salt)
    return prepared, digest_of_ask(prepared.terms.asked)


def _answered(
    solver: Solver, caller: Caller, id_: str, prepared: Prepared, solution: Solution
) -> Answered:
    """What the record of an answer needs to know."""
    named = None if solution.guarantee is None else solution.guarantee.certificate
    return Answered(
        id=id_,
        key=caller.key_id,
        question=prepared.question,
        solution=solution,
        certificate=None if named is None else _digests(solver)[named],
        engine=fingerprint_of(prepared.reasoner.identity),
        departures=prepared.terms.asked.departures,
    )


def _digests(solver: Solver) -> dict[str, str]:
    """The digests of the active certificates, by their ids."""
    return {one.id: one.digest for one in solver.guarantees.certificates}


@asynccontextmanager
async def _place(context: Context, caller: Caller) -> AsyncIterator[Place]:
    """A place for a question, whose tokens count towards its key's limit."""
    spent = 0.0
    place: Place | None = None
    try:
        async with context.admission.place(tenant_of(caller)) as place:
            spent = place.charged
            context.rates.spend(caller.key_id, spent)
            yield place
    finally:
        if place is not None:
            context.rates.spend(caller.key_id, place.charged - spent)


class LiveSolution:
    """A question that is being answered, with its events for one reader.

    Args:
        work: answers the question and calls both callbacks, as `ask` does.
    """

    def __init__(self, work: Callable[[OnStart, OnEvent], Coroutine[Any, Any, Solution]]) -> None:
        self._started: asyncio.Future[Prepared] = asyncio.get_running_loop().create_future()
        self._told: asyncio.Queue[Event | None] = asyncio.Queue()
        self._working = asyncio.create_task(work(self._started.set_result, self._told.put_nowait))
        self._working.add_done_callback(self._ended)

    def _ended(self, working: asyncio.Task[Solution]) -> None:
        self._told.put_nowait(None)
        failure = None if working.cancelled() else working.exception()
        if self._started.done():
            return
        if failure is None:
            self._started.cancel()
        else:
            self._started.set_exception(failure)
            self._started.exception()  # a client that disconnected does not read it

    async def start(self, request: Request) -> Prepared:
        """The question as it starts. Without a start, it is cancelled.

        Raises:
            ClientDisconnect: the client of `request` has disconnected.
            Exception: as `ask` does, if the question is refused.
        """

        async def started() -> Prepared:
            return await self._started

        try:
            return await while_connected(request, started())
        except BaseException:
            self.cancel()
            raise

    async def events(self) -> AsyncIterator[list[Event]]:
        """All events until success or failure, in batches: each holds events since the last one."""
        told: list[Event | None] = []
        while None not in told:
            told = [await self._told.get()]
            while not self._told.empty() and len(told) < _BATCH:
                told.append(self._told.get_nowait())
            if events := [event for event in told if event is not None]:
                yield events

    async def outcome(self) -> Solution | BaseException:
        """The solution, or the error that `ask` raised."""
        await asyncio.wait({self._working})
        return self._working.exception() or self._working.result()

    def cancel(self) -> None:
        """Aborts the question, if it still runs, because the reader has left."""
        self._working.cancel()


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled if the client disconnects first.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    # The body has been read, so the only remaining message is the disconnect.
    while (await request.receive())["type"] != "http.disconnect":
        pass
