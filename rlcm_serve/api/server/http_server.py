"""The HTTP server that runs an application: its sockets and its shutdown."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from rlcm_serve.api.server.http_protocol import KEEP_ALIVE, LimitedProtocol
from rlcm_serve.errors import SettingsRefused

BACKLOG = 2048
"""Connections that may wait to be accepted."""
LAST_WORDS = 5
"""Seconds for connections to close once no request is running, and again for the rest to stop."""

_log = logging.getLogger(__name__)
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class HttpServer(uvicorn.Server):
    """A uvicorn server that shuts down gracefully on SIGTERM and SIGINT and then exits normally.

    The first signal starts draining: the sockets stay open, so that clients can see that the
    service is stopping. A second signal ends the process at once.

    Args:
        build: makes the application from `fail`, which reports errors that end the service.
        drain: returns once no request is running.
        close: called when the server has stopped.
    """

    def __init__(
        self,
        build: Callable[[Callable[[BaseException], None]], Callable[..., Any]],
        drain: Callable[[], Awaitable[None]],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                build(self.fail),
                loop="uvloop",
                http=LimitedProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=LAST_WORDS,
            )
        )
        self.failure: BaseException | None = None
        self._drain = drain
        self._close = close
        self._draining: asyncio.Task[None] | None = None
        self._owns_process = False

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until shutdown. A drained process ends within `2 * LAST_WORDS` seconds.

        It ends even while vLLM does not stop, or while a thread is still loading a model, which
        cannot be interrupted.
        """

        async def serve() -> None:
            self._owns_process = True
            try:
                await self.serve(sockets)
            finally:
                self._close()

        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(serve())

    def fail(self, error: BaseException) -> None:
        """Stops the server because of an error that ends the service."""
        self.failure = error
        self.should_exit = True

    def drain(self) -> None:
        """Stops the server as the first signal does."""
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain_and_exit())

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles signals while serving; uvicorn itself would raise them again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT)
        for number in handled:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._draining is not None:
            _log.warning("%s again: ending at once", number.name)
            os._exit(128 + number)
        _log.info("%s: stopping", number.name)
        self.drain()

    async def _drain_and_exit(self) -> None:
        try:
            await self._drain()
        finally:
            if self._owns_process:
                last = threading.Timer(2 * LAST_WORDS, os._exit, (0,))
                last.daemon = True
                last.start()
            self.should_exit = True


def listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for all addresses of `host`; port 0 selects a free port.

    Connections wait in the sockets until a server accepts them.

    Raises:
        SettingsRefused: the address does not belong to this machine, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SettingsRefused(
            f"host is {host!r}: {error.strerror}; give a name or an address of this machine"
        ) from error
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((one[0], one[4]) for one in found):
            chosen = port or (sockets[0].getsockname()[1] if sockets else 0)
            sockets.append(_listen_at(family, (address[0], chosen, *address[2:])))
    except OSError as error:
        if error.errno not in _NOT_HERE or not sockets:
            for opened in sockets:
                opened.close()
            raise SettingsRefused(
                f"cannot listen on {host}:{port}: {error.strerror}; stop what listens there, or "
                "choose another --port or --host"
            ) from error
    return sockets


def url_of(sockets: Sequence[socket.socket]) -> str:
    """The URL of the first socket."""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listen_at(family: int, address: tuple[Any, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened
