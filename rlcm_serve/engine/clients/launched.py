"""A vLLM that this process starts, and ends with all of its processes."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from multiprocessing import active_children
from pathlib import Path

from rlcm_serve.engine.clients.base import Client
from rlcm_serve.engine.clients.cause import cause_of_death
from rlcm_serve.engine.clients.cleanup import DeadEngineCleanup, children
from rlcm_serve.engine.launch import EngineSettings, launch
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.weights.adapters import Adapter
from rlcm_serve.own_files import own_log, scratch

_SOCKETS = "VLLM_RPC_BASE_PATH"
_numbers = count(1)


class LaunchedClient(Client):
    """The constructor starts vLLM and blocks until it runs; `start` does not block the event loop.

    Raises:
        ModelRefused, UnsupportedVllm, EngineDead: see `launch`.
    """

    def __init__(
        self,
        settings: EngineSettings,
        files: ModelFiles,
        stop_ids: tuple[int, int],
        on_stage: Callable[[str], None],
        adapters: Sequence[Adapter] = (),
    ) -> None:
        before = children()
        # vLLM does not remove its sockets. It creates them in a folder that we can remove.
        # Its name is short, because the path of a socket has at most 107 characters.
        self._sockets = scratch() / str(next(_numbers))
        self._sockets.mkdir(mode=0o700)
        try:
            with _sockets_in(self._sockets):
                self.llm = launch(settings, files, stop_ids, on_stage, adapters)
        except BaseException:
            shutil.rmtree(self._sockets, ignore_errors=True)
            raise
        self._started = children() - before
        self._processes = [one for one in active_children() if one.pid in self._started]
        self._log = settings.log
        self.cleanup = DeadEngineCleanup(self._started)

    @classmethod
    async def start(
        cls,
        settings: EngineSettings,
        files: ModelFiles,
        stop_ids: tuple[int, int],
        on_stage: Callable[[str], None],
        adapters: Sequence[Adapter] = (),
    ) -> LaunchedClient:
        """Starts vLLM in a thread; if cancelled, vLLM is stopped as soon as it has started."""
        unwanted = threading.Event()

        def launch_unless_cancelled() -> LaunchedClient:
            client = cls(settings, files, stop_ids, on_stage, adapters)
            if unwanted.is_set():
                client.close()
            return client

        try:
            return await asyncio.to_thread(launch_unless_cancelled)
        except asyncio.CancelledError:
            unwanted.set()
            raise

    def settle(self) -> None:
        """Notes the processes to clean up after, and lets the garbage collector skip vLLM."""
        self.cleanup = DeadEngineCleanup(self._started)
        # A full collection looks at a million objects of vLLM and torch, and stops all threads for
        # a second. They stay anyway, so it need not.
        gc.freeze()

    def kill(self) -> None:
        """Sends SIGKILL to all of vLLM's processes."""
        self.cleanup.kill()

    def cause_of_death(self) -> str:
        """How vLLM's processes ended, and what vLLM logged last."""
        log = None if self._log is None else own_log(self._log).path
        return cause_of_death(self._processes, log)

    def close(self) -> None:
        """Stops vLLM and all its processes, and frees what they and this process held."""
        self.llm.shutdown()
        # vLLM's __del__ calls this again when the interpreter exits and its modules are gone.
        self.llm.shutdown = lambda timeout=None: None
        self.cleanup.remove()
        shutil.rmtree(self._sockets, ignore_errors=True)
        gc.unfreeze()
        gc.collect()  # vLLM's sockets and their threads are in reference cycles


@contextmanager
def _sockets_in(folder: Path) -> Iterator[None]:
    """Lets vLLM create its sockets in this folder while it starts."""
    kept = os.environ.get(_SOCKETS)
    os.environ[_SOCKETS] = str(folder)
    try:
        yield
    finally:
        if kept is None:
            del os.environ[_SOCKETS]
        else:
            os.environ[_SOCKETS] = kept
