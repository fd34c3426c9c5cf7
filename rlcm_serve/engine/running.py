"""One run of vLLM, from its start to its end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING
from uuid import uuid4

from rlcm_serve.core import TokenIds
from rlcm_serve.engine.clients.arguments import tracks_tokens
from rlcm_serve.engine.clients.base import Client
from rlcm_serve.engine.clients.workers import call_workers
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.weights.adapters import Adapter
from rlcm_serve.engine.worker.extension import FETCH_READINGS, SEES_TABLE
from rlcm_serve.engine.worker.facts import ATTENTION_BACKENDS, EngineFacts, facts_of
from rlcm_serve.engine.worker.readings.fetching import Ticket
from rlcm_serve.engine.worker.readings.parcels import Parcel, Wanted
from rlcm_serve.engine.worker.readings.slots import ReadingsTable
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import EngineBusy, EngineDead, ModelRefused, RequestRefused

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams

_FIRST_REPLY = 60.0
"""Seconds in which vLLM must answer its first call after it has started."""
_LOOK_EVERY = 0.5
"""Seconds between two looks whether vLLM has died while it starts."""
_BEFORE_ALL_OTHERS = -1
"""Priority of a canary; see `GenerationSettings` for that of other requests."""
_RESULTS = (None, "stop", "length")
"""Finish reasons of an output that goes on, and of requests that have a result."""


class RunningVllm:
    """vLLM, with the table into which its workers write readings.

    When vLLM dies, every waiting task gets an error at once: from vLLM if it waits for tokens, from
    the table if it waits for a slot.
    """

    def __init__(
        self,
        client: Client,
        settings: EngineSettings,
        files: ModelFiles,
        interval: int,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        self.client, self.llm = client, client.llm
        self.context = int(self.llm.model_config.max_model_len)
        self._new_table = partial(
            ReadingsTable,
            settings.slots,
            self.context // interval + 1,
            signals=settings.shows_signals,
            tokens=self.context if tracks_tokens(settings, files) else 0,
            inputs=files.hidden_size + len(STATISTICS) if settings.record_inputs else 0,
            prompt=files.hidden_size if files.familiarity is not None else 0,
        )
        self._may_share = settings.shares_memory
        self.table = self._new_table()
        self._adapters = {
            adapter.digest: adapter.request(number) for number, adapter in enumerate(adapters, 1)
        }
        self.outputs_received = 0
        self._open, self._canaries = 0, 0
        self._killed: str | None = None
        prefix = f"rlcm-{uuid4().hex[:12]}"  # an adopted client has other users, with ids of theirs
        self._ids = (f"{prefix}-{number}" for number in count())

    async def connect(self) -> None:
        """Waits for vLLM's first answer, and chooses the channel of readings.

        Raises:
            EngineDead: vLLM does not answer, or has died before. It is closed.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        self.require_alive()
        try:
            # If vLLM dies during these calls, they never return. vLLM makes the first one once, at
            # the latest with the first request.
            async with asyncio.timeout(_FIRST_REPLY):
                await self.llm.get_supported_tasks()
                if not await self._shares_memory():
                    self.table.close()
                    self.table = self._new_table(ask=self._ask_workers)
        except EngineDeadError as error:
            cause = await self.cause_of_death()
            self.close()
            raise EngineDead(f"vLLM died just after it had started: {cause}") from error
        except TimeoutError as error:
            self.close()
            raise EngineDead(
                f"vLLM started, but did not answer within {_FIRST_REPLY:g} s"
            ) from error

    async def _shares_memory(self) -> bool:
        """Whether every worker of every engine maps the table's file, on this host."""
        if not self._may_share:
            return False
        mark = secrets.randbits(62)
        self.table.mark(mark)
        address = asdict(self.table.address)
        sees = await call_workers(self.llm, SEES_TABLE, address, mark)
        self.table.mark(0)
        return all(sees)

    async def _ask_workers(
        self, wanted: Sequence[Wanted], released: Sequence[Ticket]
    ) -> list[Parcel | None]:
        """What the workers have of some slots; all ranks of a request's engine have the same."""
        address = asdict(self.table.address)
        replies = await call_workers(self.llm, FETCH_READINGS, address, wanted, released)
        return [
            next((parcel for parcel in parcels if parcel is not None), None)
            for parcels in zip(*replies, strict=True)
        ]

    async def facts(self) -> EngineFacts:
        """What decides the numbers that this vLLM computes.

        Raises:
            EngineDead: vLLM has died.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            by_worker = await self.llm.collective_rpc(ATTENTION_BACKENDS)
        except EngineDeadError as error:
            raise EngineDead("vLLM died just after it had started") from error
        return facts_of(self.llm.vllm_config, sorted({*chain.from_iterable(by_worker)}))

    async def load_adapters(self) -> None:
        """Loads every adapter, so that one that does not fit is refused now.

        Raises:
            ModelRefused: vLLM cannot load an adapter onto this model.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        for request in self._adapters.values():
            try:
                await self.llm.add_lora(request)
            except EngineDeadError as error:
                raise EngineDead(f"vLLM died while it loaded {request.lora_path}") from error
            except Exception as error:  # of vLLM's worker, by its message alone
                raise ModelRefused(
                    f"vLLM cannot load the adapter {request.lora_path} onto this model: {error}"
                ) from error

    @asynccontextmanager
    async def answering(self, seconds: float) -> AsyncIterator[None]:
        """Ends the calls inside after so many seconds, or once vLLM has died: then none returns.

        Raises:
            TimeoutError: it ended them; `has_died` says why.
        """
        async with asyncio.timeout(seconds) as limit:
            watching = asyncio.create_task(self._ends_at_death(limit))
            try:
                yield
            finally:
                watching.cancel()

    async def _ends_at_death(self, limit: asyncio.Timeout) -> None:
        while not self.has_died:  # vLLM tells only who reads outputs  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY)
        limit.reschedule(asyncio.get_running_loop().time())

    def settle(self) -> None:
        """Call this after the first finished request, when all of vLLM's processes exist."""
        self.client.settle()
        if self.llm.output_handler is not None:
            self.llm.output_handler.add_done_callback(lambda _: self.table.close())
        self.table.unlink()  # all workers have mapped it; a kill now leaves no file behind

    @property
    def has_died(self) -> bool:
        """Whether vLLM has stopped by itself."""
        return bool(self.llm.errored)

    def require_alive(self) -> None:
        """Raises `EngineDead` if vLLM has died."""
        if self._killed is not None:
            raise EngineDead(self._killed)
        if self.has_died:
            raise EngineDead("vLLM has stopped running: see its log for the reason")

    @asynccontextmanager
    async def outputs(
        self,
        prompt: TokenIds,
        params: SamplingParams,
        priority: int,
        cache_salt: str | None = None,
        adapter: str = "",
    ) -> AsyncIterator[AsyncIterator[RequestOutput]]:
        """The outputs of one request as they arrive; leaving the context early aborts the request.

        `adapter` is the digest of the LoRA adapter to apply; "" applies none.

        Raises:
            EngineDead: vLLM has died, or ended the request without a result.
            EngineBusy: vLLM takes no more requests now.
            RequestRefused: vLLM cannot carry out such a request.
        """
        from vllm.exceptions import GracefulHTTPError, VLLMClientError
        from vllm.inputs import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        self.require_alive()
        inputs = tokens_input(list(prompt), cache_salt=cache_salt)
        request_id = next(self._ids)
        self._open += 1
        try:
            async with aclosing(
                self.llm.generate(
                    inputs,
                    params,
                    request_id,
                    priority=priority,
                    lora_request=self._adapters[adapter] if adapter else None,
                )
            ) as outputs:
                yield _Counted(outputs, self)
        except EngineDeadError as error:
            raise EngineDead(self._killed or "the engine died while answering") from error
        except EngineGenerateError as error:
            reason = self._killed or f"the engine failed while answering: {error}"
            raise EngineDead(reason) from error
        except GracefulHTTPError as error:
            raise EngineBusy(str(error)) from error
        except VLLMClientError as error:
            raise RequestRefused("problem", f"vLLM refuses the request: {error}") from error
        finally:
            self._open -= 1

    async def canary(self) -> None:
        """Asks for one token after one token: too short a prompt for the prefix cache.

        It goes before all others: an adopted vLLM may have a queue that this service cannot see.
        """
        from vllm import SamplingParams

        params = SamplingParams(temperature=0.0, max_tokens=1, detokenize=False)
        self._canaries += 1
        try:
            async with self.outputs((0,), params, _BEFORE_ALL_OTHERS) as outputs:
                async for _ in outputs:
                    pass
        finally:
            self._canaries -= 1

    def kill(self, reason: str) -> None:
        """Kills vLLM's processes, even stopped ones; vLLM then tells everyone who waits.

        A vLLM that was adopted is not killed, but gets no requests any more.
        """
        self._killed = reason
        self.table.close()
        self.client.kill()

    async def cause_of_death(self) -> str:
        """Why vLLM has died; takes a second at most."""
        if self._killed is not None:
            return self._killed
        return await asyncio.to_thread(self.client.cause_of_death)

    @property
    def in_flight(self) -> int:
        """Unfinished requests of this service in vLLM, without canaries."""
        return self._open - self._canaries

    @property
    def honours_seeds(self) -> bool:
        """Whether a request may set a seed.

        vLLM discards the token sampled by the last row of an unfinished prefill, and then rewinds
        the request's random generator. A CPU generator cannot be rewound, and the engine would die.
        """
        from vllm.platforms import current_platform

        scheduler = self.llm.vllm_config.scheduler_config
        chunked = scheduler.enable_chunked_prefill or scheduler.long_prefill_token_threshold > 0
        return not (current_platform.is_cpu() and chunked)

    def close(self) -> None:
        """Stops vLLM and all its processes, and frees what they and this process held."""
        self.table.close()
        self.client.close()

    async def aclose(self) -> None:
        """Does what `close` does, which may take seconds, without blocking the event loop."""
        self.table.close()
        await asyncio.to_thread(self.client.close)


class _Counted:
    """Outputs of a request, counted as they arrive."""

    def __init__(self, outputs: AsyncIterator[RequestOutput], running: RunningVllm) -> None:
        self._outputs, self._running = outputs, running

    def __aiter__(self) -> AsyncIterator[RequestOutput]:
        return self

    async def __anext__(self) -> RequestOutput:
        output = await anext(self._outputs)
        self._running.outputs_received += 1
        for part in output.outputs:
            if part.finish_reason not in _RESULTS:  # of a request that failed or was ended
                why = f"the engine ended a request without a result: {part.finish_reason}"
                raise EngineDead(why)
        return output
