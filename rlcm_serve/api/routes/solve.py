"""`/solve`: one question, answered at once or as a stream of events."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request, Response

from rlcm_serve.api.access import MaySolve
from rlcm_serve.api.ask import LiveSolution, ask, while_connected
from rlcm_serve.api.bodies import JsonRoute
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.error_responses import documented, failed_in_stream
from rlcm_serve.api.event_stream import event_response, frame
from rlcm_serve.api.idempotency.header import TAKES_KEY
from rlcm_serve.api.streams import event_stream
from rlcm_serve.api.wire.base import Wire
from rlcm_serve.api.wire.events import EVENTS, StartBody, body_of
from rlcm_serve.api.wire.headers import guarantee_header
from rlcm_serve.api.wire.question import SolveRequest
from rlcm_serve.api.wire.solution import SolveResponse
from rlcm_serve.core import Solution
from rlcm_serve.evidence.records import new_id

router = APIRouter(tags=["questions"], route_class=JsonRoute)

_STREAM = event_stream(
    "The solution as JSON. With `stream`: events `start`, `token` (if `stream_tokens`), "
    "`checkpoint`, `exit`, `sample` and `vote`. The last event is `done` with the solution, or "
    "`error` with an error response.",
    EVENTS | {"done": SolveResponse},
)


@router.post(
    "/solve",
    response_model=SolveResponse,
    responses=_STREAM | documented(400, 401, 403, 408, 409, 413, 415, 421, 422, 429, 500, 503, 504),
    dependencies=[TAKES_KEY],
)
async def solve(
    body: SolveRequest,
    request: Request,
    context: ContextOfApp,
    caller: MaySolve,
) -> Response:
    """Answers one question at the risk that the caller accepts."""
    question = body.to_question()
    id_ = new_id()
    asking = functools.partial(ask, context, caller, question, since=request.state.arrived, id_=id_)
    if not body.stream:
        solution = await while_connected(request, asking())
        # Sent directly: FastAPI would validate and encode it a second time.
        answered = await _json_of(solution, id_, body.return_trace)
        headers = guarantee_header(solution.guarantee)
        return Response(answered, media_type="application/json", headers=headers)
    live = LiveSolution(functools.partial(asking, text=body.stream_tokens))
    prepared = await live.start(request)
    start = StartBody.from_prepared(prepared, id_)
    events = _events(live, start, body.return_trace)
    headers = guarantee_header(prepared.terms.guarantee)
    return event_response(events, context.settings.heartbeat_s, headers)


async def _events(
    live: LiveSolution, start: StartBody, return_trace: bool
) -> AsyncGenerator[bytes]:
    """The events of a question that has started; the last is `done` or `error`."""
    try:
        yield _sent("start", start)
        async for events in live.events():
            yield b"".join(_sent(*body_of(event, return_trace)) for event in events)
        outcome = await live.outcome()
        if isinstance(outcome, Solution):
            yield frame(await _json_of(outcome, start.id, return_trace), "done")
        else:  # the status is already sent: the stream reports the error
            yield frame(failed_in_stream(outcome).to_json(), "error")
    finally:
        live.cancel()


async def _json_of(solution: Solution, id_: str, return_trace: bool) -> str:
    """The response to a question. With traces it may be megabytes, so a thread writes it."""

    def write() -> str:
        return SolveResponse.from_solution(solution, return_trace, id_).model_dump_json()

    return await asyncio.to_thread(write) if return_trace else write()


def _sent(name: str, body: Wire) -> bytes:
    return frame(body.model_dump_json(), name)
