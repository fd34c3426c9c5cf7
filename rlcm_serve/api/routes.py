"""The routes: from the wire to the service and back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import ClientDisconnect

from rlcm_serve.api.problems import documented
from rlcm_serve.api.wire import SolveRequest, SolveResponse
from rlcm_serve.service import Service

router = APIRouter()
Result = TypeVar("Result")


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOfApp = Annotated[Service, Depends(_service)]


@router.post("/solve", responses=documented(409, 422, 503))
async def solve(body: SolveRequest, request: Request, service: ServiceOfApp) -> SolveResponse:
    """Answers one problem at the risk the caller accepts."""
    question = body.to_question()
    solution = await _while_connected(request, service.solver.solve(question))
    return SolveResponse.from_solution(solution, body.return_trace)


@router.get("/health", responses=documented(503))
async def health(service: ServiceOfApp) -> Response:
    """Empty 200 while the service starts and once it is up; 503 when its engine has died."""
    await service.check_health()
    return Response()


@router.get("/readyz", responses=documented(503))
async def readyz(service: ServiceOfApp) -> Response:
    """Empty 200 when questions can be answered; else 503 with the stage of the start."""
    await service.check_ready()
    return Response()


async def _while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled if the client goes away first.

    Raises:
        ClientDisconnect: the client is gone; nobody is left to answer.
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
    # The body has been read, so the only message left is the one that ends the connection.
    while (await request.receive())["type"] != "http.disconnect":
        pass
