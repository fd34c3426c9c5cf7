"""The whole app around a scripted engine, on its own port, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rlcm_serve.api.server.http_server import HttpServer, listen, url_of
from rlcm_serve.settings import Settings
from tests.rlcm_serve.api.serving import Running
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine


@contextmanager
def listening(
    state: Path,
    *scripts: Script,
    certificates: Sequence[Path] = (),
    settings: Settings | None = None,
    engine: ScriptedEngine | None = None,
) -> Iterator[tuple[str, Running]]:
    """The address and the parts of a service that is ready and stores its data in `state`.

    `engine` replaces the one that follows the scripts.
    """
    settings = settings or Settings(state=state)
    running = Running(engine or ScriptedEngine(*scripts), state, certificates, settings)
    running.engine.started.set()
    ready = threading.Event()
    running.service._on_stage = lambda stage: ready.set() if stage == "ready" else None
    sockets = listen("127.0.0.1", 0)
    server = HttpServer(lambda fail: running.app, _at_once)
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets})
    thread.start()
    try:
        if not ready.wait(20):
            raise RuntimeError(f"it is not ready: {running.service.stage}")
        yield url_of(sockets), running
    finally:
        server.should_exit = True
        thread.join(20)
        running.context.database.close()


async def _at_once() -> None:
    """Ends at once: no request is running when a test ends."""
