"""One run of vLLM: from its start to its end, whoever brings that about."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from rlcm_serve.core import TokenIds
from rlcm_serve.engine.cleanup import DeadEngineCleanup, children
from rlcm_serve.engine.launch import EngineSettings, launch
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.worker.readings import ReadingsTable
from rlcm_serve.errors import EngineDead

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

_SOCKETS = "VLLM_RPC_BASE_PATH"
_FIRST_REPLY = 60.0
"""Seconds that vLLM may take to reply once it has said that it is up."""


class RunningVllm:
    """vLLM, and the table in which its workers leave their readings.

    When it dies, whoever waits for it is told at once: vLLM itself tells those who wait for tokens,
    the table those who wait for a slot.

    Making one starts vLLM, and blocks until it is up; `start` does not block.

    Raises:
        ModelRefused, UnsupportedVllm, EngineDead: as `launch`.
    """

    def __init__(
        self,
        settings: EngineSettings,
        files: ModelFiles,
        stop_ids: tuple[int, int],
        interval: int,
        on_stage: Callable[[str], None],
    ) -> None:
        before = children()
        # vLLM leaves its sockets where it made them; so it makes them where they can be swept up.
        self._sockets = tempfile.mkdtemp(prefix="rlcm-vllm-")
        try:
            with _sockets_in(self._sockets):
                self.llm: AsyncLLM = launch(settings, files, stop_ids, on_stage)
        except BaseException:
            shutil.rmtree(self._sockets, ignore_errors=True)
            raise
        self.context = int(self.llm.model_config.max_model_len)
        self.table = ReadingsTable(
            settings.slots, self.context // interval + 1, signals=settings.tracks_tokens
        )
        self._started = children() - before
        self.cleanup = DeadEngineCleanup(self._started)
        self._ids = itertools.count()

    @classmethod
    async def start(
        cls,
        settings: EngineSettings,
        files: ModelFiles,
        stop_ids: tuple[int, int],
        interval: int,
        on_stage: Callable[[str], None],
    ) -> RunningVllm:
        """Starts vLLM; if this is cancelled, vLLM is ended as soon as it is up."""
        unwanted = threading.Event()

        def make() -> RunningVllm:
            running = cls(settings, files, stop_ids, interval, on_stage)
            if unwanted.is_set():
                running.close()
            return running

        try:
            running = await asyncio.to_thread(make)
        except asyncio.CancelledError:
            unwanted.set()
            raise
        try:
            # The one question that vLLM's death would leave without an answer. It is asked once, by
            # the first request at the latest.
            async with asyncio.timeout(_FIRST_REPLY):
                await running.llm.get_supported_tasks()
        except TimeoutError as error:
            running.close()
            raise EngineDead(f"vLLM started, then said nothing for {_FIRST_REPLY:g} s") from error
        return running

    def settle(self) -> None:
        """To be called when a first request has been answered, and so all its parts are there."""
        self.cleanup = DeadEngineCleanup(self._started)
        if self.llm.output_handler is not None:
            self.llm.output_handler.add_done_callback(lambda _: self.table.close())
        if self.llm.vllm_config.parallel_config.data_parallel_size == 1:
            self.table.unlink()  # every worker has mapped it now: even a kill leaves no file behind

    def require_alive(self) -> None:
        """Raises `EngineDead` if vLLM has died."""
        if self.llm.errored:
            raise EngineDead("vLLM is not running any more; its log says why")

    @asynccontextmanager
    async def outputs(
        self, prompt: TokenIds, params: SamplingParams, priority: int
    ) -> AsyncIterator[AsyncIterator[RequestOutput]]:
        """What vLLM generates for one request, as it comes; leaving early aborts the request.

        Raises:
            EngineDead: vLLM died meanwhile, or had before.
        """
        from vllm.inputs import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        self.require_alive()
        inputs, request_id = tokens_input(list(prompt)), f"rlcm-{next(self._ids)}"
        try:
            async with aclosing(
                self.llm.generate(inputs, params, request_id, priority=priority)
            ) as outputs:
                yield outputs
        except (EngineDeadError, EngineGenerateError) as error:
            raise EngineDead(f"the engine died while answering: {error}") from error

    @property
    def in_flight(self) -> int:
        """Requests that vLLM is working on."""
        return int(self.llm.output_processor.get_num_unfinished_requests())

    @property
    def honours_seeds(self) -> bool:
        """Whether a request may bring its own seed.

        vLLM throws away what the last row of an unfinished prefill samples, and winds the request's
        generator back, which a CPU's generator cannot do: the engine would die of it.
        """
        from vllm.platforms import current_platform

        scheduler = self.llm.vllm_config.scheduler_config
        chunked = scheduler.enable_chunked_prefill or scheduler.long_prefill_token_threshold > 0
        return not (current_platform.is_cpu() and chunked)

    def close(self) -> None:
        """Ends vLLM with all its processes, and frees what they and this one held for it."""
        self.table.close()
        self._end()

    async def aclose(self) -> None:
        """As `close`, which may take seconds, without holding up the event loop."""
        self.table.close()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self.llm.shutdown()
        # Its __del__ shuts down once more, at the interpreter's end without its modules.
        self.llm.shutdown = lambda timeout=None: None
        self.cleanup.remove()
        shutil.rmtree(self._sockets, ignore_errors=True)
        gc.collect()  # vLLM's sockets and their threads are in cycles


@contextmanager
def _sockets_in(folder: str) -> Iterator[None]:
    """vLLM makes its sockets where its environment says, as it starts."""
    kept = os.environ.get(_SOCKETS)
    os.environ[_SOCKETS] = folder
    try:
        yield
    finally:
        if kept is None:
            del os.environ[_SOCKETS]
        else:
            os.environ[_SOCKETS] = kept
