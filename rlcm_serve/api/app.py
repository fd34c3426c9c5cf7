"""The FastAPI application around a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version

from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.cors import CORSMiddleware

from rlcm_serve.api.access import AccessMiddleware
from rlcm_serve.api.context import Context
from rlcm_serve.api.error_responses import add_handlers
from rlcm_serve.api.idempotency.middleware import IdempotencyMiddleware
from rlcm_serve.api.routes import (
    aggregate,
    answers,
    calibrations,
    certificates,
    feedback,
    monitoring,
    page,
    rehearsals,
    solve,
    status,
)
from rlcm_serve.api.routes.openai import chat, models, responses
from rlcm_serve.api.routes.parameters import require_known
from rlcm_serve.api.server.browsers import BrowserMiddleware
from rlcm_serve.api.server.draining import DrainingMiddleware
from rlcm_serve.api.server.middleware import ObservingMiddleware
from rlcm_serve.api.server.rate_limits import RateLimitMiddleware
from rlcm_serve.store.activation import follow

DESCRIPTION = """Answers questions with a reasoning model, at a risk that the caller chooses.

The model runs inside vLLM. A probe on its hidden states estimates how likely it is to have the
right answer. Thinking stops early when this confidence is high, and the service abstains when it
stays low. A certificate guarantees both thresholds: the risk is at most alpha, with probability at
least 1 - delta.
"""


READABLE_HEADERS = (
    "Location",
    "Retry-After",
    "retry-after-ms",
    "x-should-retry",
    "X-Request-Id",
    "x-rlcm-guarantee",
    "Idempotent-Replayed",
    *(
        f"x-ratelimit-{what}-{kind}"
        for what in ("limit", "remaining", "reset")
        for kind in ("requests", "tokens")
    ),
)
"""Headers of a response that pages of other origins may read, beside those that they always may."""


def create_app(
    context: Context, on_failure: Callable[[BaseException], None], *, runs_jobs: bool = True
) -> FastAPI:
    """An application that starts the service in the background, and stops it at its own end.

    Args:
        context: what the routes work with.
        on_failure: called if the service cannot start; expected to end the server.
        runs_jobs: whether this process takes calibration jobs from the database.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        def report(start: asyncio.Task[None]) -> None:
            error = None if start.cancelled() else start.exception()
            if error is not None:
                on_failure(error)

        starting = asyncio.create_task(context.service.start())
        starting.add_done_callback(report)
        following = asyncio.create_task(follow(context.certificates, context.service))
        tasks = {starting, following}
        if context.monitoring is not None:
            betting = context.monitoring.betting.run(lambda: context.service.guarantees)
            tasks.add(asyncio.create_task(betting))
        if context.rehearsals is not None:
            rehearsing = context.rehearsals.follow(context.settings.rehearse)
            tasks.add(asyncio.create_task(rehearsing))
        try:
            async with context.jobs.running() if runs_jobs else nullcontext():
                yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if context.rehearsals is not None:
                await context.rehearsals.close()
            if context.shadows is not None:
                await context.shadows.close()
            if context.monitoring is not None:
                await context.monitoring.close()
            # First, because the process may be ended while vLLM stops.
            if context.evidence is not None:
                context.evidence.close()
            context.service.stop()
            context.workers.close()
            context.grading.close()

    # No documentation pages: they load scripts from other hosts. /openapi.json stays.
    app = FastAPI(
        title="rlcm-serve",
        version=version("rlcm-serve"),
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # Behind a proxy, a redirect could lead a client out of TLS, together with its key.
        redirect_slashes=False,
        dependencies=[Depends(require_known)],
    )
    app.state.context = context

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:  # in a thread: FastAPI takes 0.2 s to make it
        return JSONResponse(app.openapi())

    questions = (solve, chat, responses, models, answers, aggregate, feedback)
    for area in (*questions, certificates, rehearsals, calibrations, monitoring, status, page):
        app.include_router(area.router)
    add_handlers(app)
    # The last middleware added sees a request first.
    app.add_middleware(IdempotencyMiddleware, context=context)
    app.add_middleware(RateLimitMiddleware, context=context)
    app.add_middleware(AccessMiddleware, keys=context.keys, settings=context.settings)
    app.add_middleware(BrowserMiddleware, settings=context.settings)
    app.add_middleware(DrainingMiddleware, draining=context.draining)
    if context.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=context.settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=READABLE_HEADERS,
        )
    app.add_middleware(ObservingMiddleware, context=context)
    return app
