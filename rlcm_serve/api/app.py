"""The FastAPI application around a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from rlcm_serve.api.problems import add_handlers
from rlcm_serve.api.routes import router
from rlcm_serve.service import Service


def create_app(service: Service, on_failure: Callable[[BaseException], None]) -> FastAPI:
    """An application that starts `service` in the background, and stops it at its own end.

    Args:
        on_failure: called if the service cannot start; expected to end the server.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        def report(start: asyncio.Task[None]) -> None:
            error = None if start.cancelled() else start.exception()
            if error is not None:
                on_failure(error)

        starting = asyncio.create_task(service.start())
        starting.add_done_callback(report)
        try:
            yield
        finally:
            starting.cancel()
            await asyncio.wait({starting})
            service.stop()

    # No documentation pages: they would load their scripts from elsewhere. /openapi.json stays.
    app = FastAPI(
        title="rlcm-serve",
        version=version("rlcm-serve"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(router)
    add_handlers(app)
    return app
