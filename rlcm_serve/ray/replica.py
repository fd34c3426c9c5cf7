"""One replica: the whole service with its engine, in a process of Ray Serve."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from ray import serve

from rlcm_serve.api.app import create_app
from rlcm_serve.api.composition import build_context
from rlcm_serve.api.server.http_server import LAST_WORDS
from rlcm_serve.api.server.open_files import raise_limit
from rlcm_serve.api.server.server import drain, log_form
from rlcm_serve.errors import EngineDead
from rlcm_serve.ray.scale import SAMPLES, Scale, samples_of
from rlcm_serve.settings import Settings
from rlcm_serve.store.database import Database
from rlcm_serve.telemetry import logs

NAME = "rlcm"
"""Of the application and of its one deployment."""
_LAST_RESPONSES = 0.2
"""Seconds for the last responses to leave a process that is about to end."""

_log = logging.getLogger(__name__)


class Replica:
    """The service behind Ray's proxies. Ray calls each method on the replica's own event loop.

    A request is one call of the ASGI application, so all samples of a question run here.

    Its engine is not restarted here. If it dies or hangs, the process ends and Ray starts another
    replica: a replica that answers 503 at once would look idle, and Ray would send it everything.
    """

    def __init__(self, settings: Settings) -> None:
        raise_limit()
        logs.configure(settings.log_level, log_form(settings, sys.stderr))
        self._loop = asyncio.get_running_loop()
        self._settled = asyncio.Event()
        self._failure: BaseException | None = None
        self._end: asyncio.Task[None] | None = None
        self._database = Database(settings.database_url, settings.database_wait_s)
        self._context = build_context(settings, self._database, self._on_stage, restarts=False)

    def __serve_build_asgi_app__(self) -> Callable[..., Any]:
        """The application; Ray calls this after the constructor, then starts its lifespan."""
        return create_app(self._context, self._fail)

    async def check_health(self) -> None:
        """Returns if questions can be answered; Ray's first check waits until the engine is up.

        Raises:
            EngineDead: the engine died, or hung and was killed.
            RlcmError: the service could not start.
        """
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        await self._context.service.check_health()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What the autoscaling policy reads."""
        return {SAMPLES: samples_of(self._context)}

    async def __del__(self) -> None:
        """Ray calls this after the last request and the end of the application's lifespan."""
        if hasattr(self, "_context"):  # else the constructor has failed
            await drain(self._context)
            self._context.tracing.close()
            self._database.close()

    def _on_stage(self, stage: str) -> None:
        """Called in any thread."""
        _log.info(stage)
        self._loop.call_soon_threadsafe(self._look, stage)

    def _look(self, stage: str) -> None:
        if stage == "ready":
            self._settled.set()
        elif self._settled.is_set() and self._end is None:
            self._end = asyncio.create_task(self._end_if_failed())

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._settled.set()

    async def _end_if_failed(self) -> None:
        try:
            await self._context.service.check_health()
        except EngineDead as error:
            _log.error("%s: this replica ends, and Ray starts another", error)
            try:
                async with asyncio.timeout(LAST_WORDS):
                    await drain(self._context)
                await asyncio.sleep(_LAST_RESPONSES)
            finally:
                if self._context.evidence is not None:
                    self._context.evidence.close()
                os._exit(1)
        self._end = None


def application(
    settings: Settings, scale: Scale, replica: type[Replica] = Replica
) -> serve.Application:
    """The application of Ray Serve, with one deployment."""
    deployment = serve.deployment(serve.ingress()(replica), name=NAME, **scale.options(settings))
    return deployment.bind(settings)
