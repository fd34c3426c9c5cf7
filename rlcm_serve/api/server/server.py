"""Runs the server of `rlcm serve`: from its sockets to its last request."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console

from rlcm_serve.api.app import create_app
from rlcm_serve.api.composition import build_context, open_database
from rlcm_serve.api.context import Context
from rlcm_serve.api.server.http_server import LAST_WORDS, HttpServer, listen, url_of
from rlcm_serve.api.server.open_files import raise_limit
from rlcm_serve.own_files import own_log
from rlcm_serve.settings import Settings
from rlcm_serve.store.database import Database
from rlcm_serve.telemetry import logs
from rlcm_serve.terminal import StageClock, kept_stderr

_log = logging.getLogger("rlcm_serve")


def run_server(settings: Settings) -> None:
    """Serves until a signal; `/health` returns 200 at once, `/readyz` once the engine is up.

    Raises:
        SettingsRefused: the address is taken, or keys are required and none exists.
        DatabaseRefused: the database cannot be used.
        RlcmError: the engine did not start.
    """
    raise_limit()
    with (
        _listening(settings) as sockets,
        kept_stderr() as stderr,
        open_database(settings) as database,
    ):
        form = log_form(settings, stderr)
        logs.configure(settings.log_level, form, stderr)
        if settings.log_level != "debug":
            logging.getLogger("uvicorn").setLevel(logging.WARNING)  # our logs report its steps
            logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        try:
            failure = _serve(settings, sockets, database, _stages(form, stderr))
        finally:
            logs.configure(settings.log_level, form)
    if failure is not None:
        raise failure


def _serve(
    settings: Settings,
    sockets: list[socket.socket],
    database: Database,
    on_stage: Callable[[str], None],
) -> BaseException | None:
    """Returns the error that ended the server; None if a signal did."""
    context = build_context(settings, database, on_stage)
    _log.info("listening on %s", url_of(sockets))
    if (log := settings.engine().log) is not None:
        _log.info("vLLM writes to %s", own_log(log).path)
    server = HttpServer(
        lambda fail: create_app(context, fail), lambda: drain(context), context.tracing.close
    )
    server.run(sockets)
    return server.failure


async def drain(context: Context) -> None:
    """Refuses new requests, gives running ones `drain_s` seconds to finish, then ends them."""
    context.admission.close()
    context.aggregations.close()
    context.grading.drain()
    context.draining.close()
    try:
        async with asyncio.timeout(context.settings.drain_s):
            await context.admission.idle()
            await context.draining.idle()
    except TimeoutError:
        _log.warning("ending %d requests that are not finished", context.draining.running)
        context.draining.cut()
        try:
            async with asyncio.timeout(LAST_WORDS):
                await context.draining.idle()
        except TimeoutError:
            _log.warning("%d requests do not end", context.draining.running)
    await context.first_asks.close()
    await context.keys.close()
    await context.rates.close()


@contextmanager
def _listening(settings: Settings) -> Iterator[list[socket.socket]]:
    """Opens the sockets first, so that a taken port fails before the model is loaded."""
    sockets = listen(settings.host, settings.port)
    try:
        yield sockets
    finally:
        for opened in sockets:
            opened.close()


def log_form(settings: Settings, stderr: TextIO) -> str:
    """The form of this process's log lines: `json` or `console`."""
    if settings.log_format == "auto":
        return "console" if stderr.isatty() else "json"
    return settings.log_format


def _stages(form: str, stderr: TextIO) -> Callable[[str], None]:
    return StageClock(Console(file=stderr)) if form == "console" else _log.info
