"""The endpoint plugin with which `vllm serve` gains our routes.

vLLM loads `RlcmRoutes` from its entry point `vllm.endpoint_plugins`, if `VLLM_PLUGINS` names it.
The application behind it is the one of `rlcm serve`, without calibration jobs.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from fastapi import FastAPI

from rlcm_serve.api.app import create_app
from rlcm_serve.api.beside_vllm.dispatch import Dispatch
from rlcm_serve.api.composition import build_context
from rlcm_serve.api.context import Context
from rlcm_serve.api.server.server import log_form
from rlcm_serve.errors import NotReady, SettingsRefused
from rlcm_serve.settings import Settings, load_settings
from rlcm_serve.store.caller import Caller
from rlcm_serve.store.caller import Scope as AccessScope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from rlcm_serve.telemetry import logs

_POLL = 0.05  # seconds
_log = logging.getLogger("rlcm_serve")


class RlcmRoutes:
    """The endpoint plugin; see vLLM's `EndpointPlugin` for the contract."""

    name = "rlcm-routes"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._dispatch = Dispatch()
        self._until_closed = AsyncExitStack()

    def attach_router(self, app: FastAPI) -> None:
        """Puts our routes in front of vLLM's, and ends our service with vLLM's application."""
        app.add_middleware(self._dispatch.in_front_of)
        inner = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
            async with self._until_closed, inner(app) as state:
                yield state

        app.router.lifespan_context = lifespan

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Adopts vLLM's client and starts the service on it; returns once it can answer.

        Raises:
            ModelRefused: vLLM was started without exit control; the message has the arguments.
            SettingsRefused: the settings are invalid, or others can reach the server and it asks
                for no key.
            RlcmError: as at the start of `rlcm serve`.
        """
        keys = tuple(key for key in (args.api_key or [os.environ.get("VLLM_API_KEY")]) if key)
        settings = settings_beside(args, engine_client.model_config.model, keys)
        logs.configure_own(settings.log_level, log_form(settings, sys.stderr))
        async with AsyncExitStack() as stack:
            database = Database(settings.database_url, settings.database_wait_s)
            stack.callback(database.close)
            context = build_context(settings, database, _log.info, client=engine_client)
            context = replace(context, keys=ServerKeys(database, keys))
            stack.callback(context.tracing.close)
            stack.push_async_callback(context.keys.close)
            stack.push_async_callback(context.first_asks.close)
            failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
            app = create_app(context, failure.set_result, runs_jobs=False)
            await stack.enter_async_context(app.router.lifespan_context(app))
            await _until_ready(context, failure)
            self._until_closed = stack.pop_all()
        self._dispatch.app = app


def settings_beside(args: Namespace, model: str, keys: Sequence[str]) -> Settings:
    """The settings of the environment and of rlcm.toml, with vLLM's model, names and address.

    Args:
        args: vLLM's command line.
        model: that vLLM serves.
        keys: of vLLM's `--api-key`. With any, our routes demand a key.

    Raises:
        SettingsRefused: a setting is invalid, or others can reach the server, and it asks for no
            key.
    """
    # By default vLLM listens on all addresses. A Unix socket is open to this machine alone.
    host = "127.0.0.1" if args.uds else args.host or "0.0.0.0"
    flags: dict[str, object] = {"model": model, "host": host}
    flags["served_model_names"] = args.served_model_name or [args.model]
    if keys:
        flags["auth"] = "on"
    settings = load_settings(flags).settings
    if settings.keys_needed and not keys:
        why = "auth is on" if settings.auth == "on" else f"others can reach the host {host!r}"
        raise SettingsRefused(
            f"{why}, and vLLM's server asks for no key: start it with --api-key KEY, or with "
            "--host 127.0.0.1 and without RLCM_AUTH"
        )
    return settings.model_copy(update={"vllm_arguments": ()})  # they are in vLLM's command line


class ServerKeys(Keys):
    """The keys of vLLM's `--api-key`, which may ask questions, beside those of `rlcm keys new`."""

    def __init__(self, database: Database, keys: Sequence[str]) -> None:
        super().__init__(database)
        self._own = [key.encode() for key in keys]

    async def caller_of(self, text: str) -> Caller:
        """The caller with this key.

        Raises:
            AccessDenied: it is none of them.
            NotReady: the database cannot be read.
        """
        # All are compared, so that the time tells nothing.
        matches = [hmac.compare_digest(text.encode(), key) for key in self._own]
        if any(matches):
            scopes = frozenset({AccessScope.SOLVE, AccessScope.METRICS})
            return Caller(_id_of(text), scopes)
        return await super().caller_of(text)


def _id_of(key: str) -> str:
    """The id under which a key owns its records: the key's own, not its place among the others.

    It is as long as the database's columns allow: 16 characters, of which 44 bits are the key's.
    """
    return f"vllm-{hashlib.sha256(key.encode()).hexdigest()[:11]}"


async def _until_ready(context: Context, failure: asyncio.Future[BaseException]) -> None:
    """Returns once the service can answer; raises what kept it from starting."""
    while not failure.done():
        try:
            await context.service.check_ready()
        except NotReady:
            await asyncio.sleep(_POLL)
        else:
            return
    raise failure.result()
