"""The real engine: vLLM, with the probe in its model and the exit rule in its sampler."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.core import Budget, Checkpoint, Completion, Sampling, Thought, TokenIds
from rlcm_serve.engine.base import EngineIdentity, ReasoningEngine
from rlcm_serve.engine.control import ControlSpec
from rlcm_serve.engine.launch import ENVIRONMENT, EngineSettings, launch
from rlcm_serve.engine.model_files import ModelFiles, chat_template_digest, resolve_model
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.readings import ReadingsTable, Slot
from rlcm_serve.errors import EngineDead, ModelRefused, RequestRefused
from rlcm_serve.probe import PROBE_FOLDER

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams

_THINKING_TOKENS = 8192  # RLCM App. B
_ANSWER_TOKENS = 256
_INTERVAL = 500  # RLCM App. B


class VllmEngine(ReasoningEngine):
    """vLLM under exit control; see `ReasoningEngine` for the contract."""

    def __init__(self, settings: EngineSettings) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.settings = settings
        self.name = settings.model
        self.on_stage: Callable[[str], None] = lambda stage: None
        self.llm: Any = None  # vLLM's AsyncLLM, once started
        self._ids = itertools.count()
        self._table: ReadingsTable | None = None

    async def start(self) -> None:
        """Reads the model's files, starts vLLM, and takes one reading to see that it can."""
        self.on_stage("reading the model's files")
        files = await asyncio.to_thread(self._read_files)
        self.on_stage("starting vLLM")
        self.llm = await asyncio.to_thread(
            launch, self.settings, files, self.stop_ids, self.on_stage
        )
        self._context = int(self.llm.model_config.max_model_len)
        capacity = self._context // self.identity.checkpoint_interval + 1
        self._table = table = ReadingsTable(self.settings.slots, capacity)
        self.on_stage("warming up")
        await self._read_state(self.prompt("1"))
        if self.llm.vllm_config.parallel_config.data_parallel_size == 1:
            table.close()  # every worker has mapped it now: even a kill leaves no file behind

    def _read_files(self) -> ModelFiles:
        folder = resolve_model(self.settings.model)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # all that is needed is in the folder
        from transformers import AutoTokenizer

        files = ModelFiles.read(folder)
        if files.probe is None and self.settings.needs_probe:
            raise ModelRefused(
                f"{folder} holds no {PROBE_FOLDER}/: train one with "
                f"`rlcm train probe --model {self.settings.model} --data problems.jsonl`"
            )
        self._text = ModelText(files, AutoTokenizer.from_pretrained(folder))
        self.identity = self._identify(files)
        return files

    def _identify(self, files: ModelFiles) -> EngineIdentity:
        """The settings, then the model's own, then defaults."""
        asked, own = self.settings, files.generation
        trained_at = files.probe.checkpoint_interval if files.probe else None
        return EngineIdentity(
            model=files.model_digest(),
            probe=files.probe_digest(),
            tokenizer=files.tokenizer_digest(),
            chat_template=chat_template_digest(self._text.tokenizer),
            checkpoint_interval=_first(asked.interval, trained_at, _INTERVAL),
            sampling=Sampling(
                temperature=_first(asked.temperature, own.get("temperature"), 1.0),
                top_p=_first(asked.top_p, own.get("top_p"), 1.0),
            ),
            budget=Budget(
                thinking=_first(asked.max_tokens, own.get("max_new_tokens"), _THINKING_TOKENS),
                answer=_first(
                    asked.answer_max_tokens, own.get("answer_max_tokens"), _ANSWER_TOKENS
                ),
            ),
            forced_suffix=self._text.suffix_text,
        )

    def stop(self) -> None:
        """Ends vLLM's processes and removes the readings' table."""
        if self.llm is not None:
            self.llm.shutdown()
            # Its __del__ shuts down once more, at the interpreter's end without its modules.
            self.llm.shutdown = lambda: None
            self.llm = None
        if self._table is not None:
            self._table.close()

    async def check_health(self) -> None:
        """Whether vLLM itself says that it runs."""
        if self.llm is None or self.llm.errored:
            raise EngineDead("the engine is not running; restart the service (its log says why)")

    @property
    def stop_ids(self) -> tuple[int, int]:
        """The two unused ids that stand for a high and a low exit."""
        return self._text.stop_high, self._text.stop_low

    @property
    def in_flight(self) -> int:
        """Requests that vLLM is working on for this service."""
        return 0 if self.llm is None else self.llm.output_processor.get_num_unfinished_requests()

    def prompt(self, problem: str) -> TokenIds:
        """In the model's own chat template; a problem that spells a special token stays text."""
        return self._text.prompt(problem)

    async def think(
        self, prompt: TokenIds, policy: ExitPolicy, budget: Budget
    ) -> AsyncGenerator[Checkpoint | Thought]:
        """One request to vLLM, its readings taken from a slot of the table as they come."""
        self._check_room(prompt, budget)
        table = await self._running_table()
        # After the budget comes the stop id that ends it; after a natural end, the closing token
        # and the model's own answer.
        params = self._sampling_params(budget.thinking + budget.answer + 2, self.stop_ids)
        slot = await table.acquire(self.identity.checkpoint_interval)
        tokens: list[int] = []
        checkpoints: list[Checkpoint] = []
        stop_reason: int | str | None = None
        try:
            params.extra_args = self._control(table, slot, policy, budget.thinking)
            async with aclosing(self._generate(prompt, params)) as outputs:
                async for output in outputs:
                    tokens += output.outputs[0].token_ids
                    stop_reason = output.outputs[0].stop_reason
                    for checkpoint in slot.new(len(tokens)):
                        checkpoints.append(checkpoint)
                        yield checkpoint
            final = slot.final()
        finally:
            table.release(slot)
        thought = self._text.thought(tokens, stop_reason, budget)
        if thought.exit in (ExitReason.NATURAL, ExitReason.BUDGET):
            if final is None:  # closed by an end of text, which leaves no later step to read it
                final = await self._read_state((*prompt, *thought.tokens), len(thought.tokens))
            checkpoints.append(final)
            yield final
        yield replace(thought, checkpoints=tuple(checkpoints))

    async def force_answers(
        self, prompt: TokenIds, thinking: TokenIds, budget: Budget, count: int = 1
    ) -> tuple[Completion, ...]:
        """One request to vLLM, its prefix cached from the thinking."""
        params = self._sampling_params(budget.answer)
        params.n = count
        ids: list[list[int]] = [[] for _ in range(count)]
        forced = (*prompt, *thinking, *self._text.suffix)
        async with aclosing(self._generate(forced, params)) as outputs:
            async for output in outputs:
                for part in output.outputs:
                    ids[part.index] += part.token_ids
        return tuple(Completion(self._text.answer(own), len(own)) for own in ids)

    async def _read_state(self, prefix: TokenIds, tokens: int = 0) -> Checkpoint:
        """The final reading at the last token of `prefix`, in a request of its own."""
        table = await self._running_table()
        slot = await table.acquire(self.identity.checkpoint_interval)
        try:
            params = self._sampling_params(1, self.stop_ids)
            params.extra_args = self._control(table, slot, FULL_BUDGET, budget=0)
            async with aclosing(self._generate(prefix, params)) as outputs:
                async for _ in outputs:
                    pass
            final = slot.final()
        finally:
            table.release(slot)
        if final is None:
            raise EngineDead("the engine sent back no reading: its processor is not running")
        return replace(final, tokens=tokens)

    async def _generate(
        self, prompt: TokenIds, params: SamplingParams
    ) -> AsyncGenerator[RequestOutput]:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        await self.check_health()
        request_id = f"rlcm-{next(self._ids)}"
        inputs = {"prompt_token_ids": list(prompt)}
        try:
            async with aclosing(self.llm.generate(inputs, params, request_id)) as outputs:
                async for output in outputs:
                    yield output
        except (EngineDeadError, EngineGenerateError) as error:
            raise EngineDead(f"the engine died while answering: {error}") from error

    async def _running_table(self) -> ReadingsTable:
        await self.check_health()
        if self._table is None:
            raise EngineDead("the engine has not started yet")
        return self._table

    def _sampling_params(self, max_tokens: int, stop_ids: Sequence[int] = ()) -> SamplingParams:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=self.identity.sampling.temperature,
            top_p=self.identity.sampling.top_p,
            max_tokens=max_tokens,
            stop_token_ids=[*stop_ids, *self._text.end_ids],
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    def _control(
        self, table: ReadingsTable, slot: Slot, policy: ExitPolicy, budget: int
    ) -> dict[str, Any]:
        """A request's extra arguments."""
        spec = ControlSpec(
            policy=policy,
            interval=self.identity.checkpoint_interval,
            budget=budget,
            stop_high=self._text.stop_high,
            stop_low=self._text.stop_low,
            think_end=self._text.think_end,
            table=table.address,
            slot=slot.number,
            ticket=slot.ticket,
        )
        return spec.to_extra_args()

    def _check_room(self, prompt: TokenIds, budget: Budget) -> None:
        answering = len(self._text.suffix) + budget.answer + 2
        needed = len(prompt) + budget.thinking + answering
        if needed > self._context:
            raise RequestRefused(
                "problem",
                f"the prompt has {len(prompt)} tokens; with {budget.thinking} to think and "
                f"{answering} to answer that is {needed}, and the model's context holds "
                f"{self._context}: shorten the problem or lower max_tokens",
            )


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
