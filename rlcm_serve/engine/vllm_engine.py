"""The real engine: vLLM, with the probe in its model and the exit rule in its sampler."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibration import FULL_BUDGET, ExitPolicy, ExitReason
from rlcm_serve.core import (
    Checkpoint,
    Completion,
    Delta,
    Drawing,
    Message,
    Role,
    Thought,
    TokenIds,
)
from rlcm_serve.engine.base import ReasoningEngine
from rlcm_serve.engine.control import ControlSpec
from rlcm_serve.engine.identity import identify
from rlcm_serve.engine.launch import ENVIRONMENT, EngineSettings
from rlcm_serve.engine.model_files import ModelFiles, resolve_model
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.readings import Slot
from rlcm_serve.engine.running import RunningVllm
from rlcm_serve.errors import EngineDead, ModelRefused, RequestRefused
from rlcm_serve.probe import PROBE_FOLDER

if TYPE_CHECKING:
    from vllm import SamplingParams

_STRIDE = 8
"""The most tokens that come at a time where nobody wants their text.

Tokens that come one by one cost this process twice the time. With a divisor of N, a checkpoint
still comes with the very token that makes it stand.
"""
_SEEDS = 2**62  # vLLM adds the number of an answer to its seed, and takes -1 for none


class VllmEngine(ReasoningEngine):
    """vLLM under exit control; see `ReasoningEngine` for the contract."""

    def __init__(self, settings: EngineSettings) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.settings = settings
        self.name = settings.model
        self.on_stage: Callable[[str], None] = lambda stage: None
        self.running: RunningVllm | None = None

    async def start(self) -> None:
        """Reads the model's files, starts vLLM, and takes one reading to see that it can."""
        if self.running is not None:
            await self.running.aclose()
            self.running = None
        self.on_stage("reading the model's files")
        files = await asyncio.to_thread(self._read_files)
        self.on_stage("starting vLLM")
        self.running = await RunningVllm.start(
            self.settings, files, self.stop_ids, self.identity.checkpoint_interval, self.on_stage
        )
        self.on_stage("warming up")
        await self._read_state(self.prompt([Message(Role.USER, "1")]))
        self.running.settle()

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
        self.suffix_tokens = len(self._text.suffix)
        self.identity = identify(self.settings, files, self._text)
        return files

    def stop(self) -> None:
        """Ends vLLM's processes and removes the readings' table."""
        if self.running is not None:
            self.running.close()
            self.running = None

    async def check_health(self) -> None:
        """Whether vLLM itself says that it runs."""
        self._alive()

    def _alive(self) -> RunningVllm:
        if self.running is None:
            raise EngineDead("the engine is not running: it has not started, or was stopped")
        self.running.require_alive()
        return self.running

    @property
    def stop_ids(self) -> tuple[int, int]:
        """The two unused ids that stand for a high and a low exit."""
        return self._text.stop_high, self._text.stop_low

    @property
    def in_flight(self) -> int:
        """Requests that vLLM is working on for this service."""
        return 0 if self.running is None else self.running.in_flight

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """In the model's own chat template; what spells a special token stays text."""
        return self._text.prompt(messages)

    def check(self, prompt: TokenIds, drawing: Drawing) -> None:
        """Room in the context, and a seed only where vLLM survives one."""
        running = self._alive()
        budget = drawing.budget
        answering = self.suffix_tokens + budget.answer + 2
        needed = len(prompt) + budget.thinking + answering
        if needed > running.context:
            raise RequestRefused(
                "problem",
                f"the prompt has {len(prompt)} tokens; with {budget.thinking} to think and "
                f"{answering} to answer that is {needed}, and the model's context holds "
                f"{running.context}: shorten the problem or lower max_tokens",
            )
        if _seed(drawing) is not None and not running.honours_seeds:
            raise RequestRefused(
                "seed",
                f"seed is {drawing.seed}, and on a CPU vLLM draws with a seed only where it takes "
                "in a prompt as a whole: leave it out, set temperature to 0, or start the service "
                "with `-- --no-enable-chunked-prefill`",
            )

    async def think(
        self, prompt: TokenIds, policy: ExitPolicy, drawing: Drawing, *, text: bool = False
    ) -> AsyncGenerator[Delta | Checkpoint | Thought]:
        """One request to vLLM, its readings taken from a slot of the table as they come."""
        self.check(prompt, drawing)
        running, budget = self._alive(), drawing.budget
        # After the budget comes the stop id that ends it; after a natural end, the closing token
        # and the model's own answer.
        params = self._sampling_params(drawing, budget.thinking + budget.answer + 2, self.stop_ids)
        params.stream_interval = 1 if text else _stride(self.identity.checkpoint_interval)
        stream = self._text.stream() if text else None
        slot = await running.table.acquire(self.identity.checkpoint_interval)
        tokens: list[int] = []
        checkpoints: list[Checkpoint] = []
        stop_reason: int | str | None = None
        cached = 0
        try:
            params.extra_args = self._control(running, slot, policy, budget.thinking)
            async with running.outputs(prompt, params, drawing.priority) as outputs:
                async for output in outputs:
                    (part,) = output.outputs
                    tokens += part.token_ids
                    stop_reason, cached = part.stop_reason, output.num_cached_tokens or 0
                    if drawn := self._text.drawn(part.token_ids):
                        for delta in stream.push(drawn) if stream else (Delta(len(drawn)),):
                            yield delta
                    for checkpoint in slot.new(len(tokens)):
                        checkpoints.append(checkpoint)
                        yield checkpoint
            final = slot.final()
        finally:
            running.table.release(slot)
        for delta in stream.flush() if stream else ():
            yield delta
        thought = self._text.thought(tokens, stop_reason, budget)
        if thought.exit in (ExitReason.NATURAL, ExitReason.BUDGET):
            if final is None:  # closed by an end of text, which leaves no later step to read it
                prefix = (*prompt, *thought.tokens)
                final = await self._read_state(prefix, len(thought.tokens), drawing.priority)
            checkpoints.append(final)
            yield final
        yield replace(
            thought,
            checkpoints=tuple(checkpoints),
            cached_prompt_tokens=min(cached, len(prompt)),
        )

    async def force_answers(
        self, prompt: TokenIds, thinking: TokenIds, drawing: Drawing, count: int = 1
    ) -> tuple[Completion, ...]:
        """One request to vLLM, its prefix cached from the thinking."""
        running = self._alive()
        params = self._sampling_params(drawing, drawing.budget.answer)
        params.n = count
        ids: list[list[int]] = [[] for _ in range(count)]
        forced = (*prompt, *thinking, *self._text.suffix)
        async with running.outputs(forced, params, drawing.priority) as outputs:
            async for output in outputs:
                for part in output.outputs:
                    ids[part.index] += part.token_ids
        return tuple(Completion(self._text.answer(own), len(own)) for own in ids)

    async def _read_state(self, prefix: TokenIds, tokens: int = 0, priority: int = 0) -> Checkpoint:
        """The final reading at the last token of `prefix`, in a request of its own."""
        running = self._alive()
        drawing = Drawing(self.identity.budget, self.identity.sampling)
        params = self._sampling_params(drawing, 1, self.stop_ids)
        slot = await running.table.acquire(self.identity.checkpoint_interval)
        try:
            params.extra_args = self._control(running, slot, FULL_BUDGET, budget=0)
            async with running.outputs(prefix, params, priority) as outputs:
                async for _ in outputs:
                    pass
            final = slot.final()
        finally:
            running.table.release(slot)
        if final is None:
            raise EngineDead("the engine sent back no reading: its processor is not running")
        return replace(final, tokens=tokens)

    def _sampling_params(
        self, drawing: Drawing, max_tokens: int, stop_ids: Sequence[int] = ()
    ) -> SamplingParams:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=drawing.sampling.temperature,
            top_p=drawing.sampling.top_p,
            seed=_seed(drawing),
            max_tokens=max_tokens,
            stop_token_ids=[*stop_ids, *self._text.end_ids],
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    def _control(
        self, running: RunningVllm, slot: Slot, policy: ExitPolicy, budget: int
    ) -> dict[str, Any]:
        """A request's extra arguments."""
        spec = ControlSpec(
            policy=policy,
            interval=self.identity.checkpoint_interval,
            budget=budget,
            stop_high=self._text.stop_high,
            stop_low=self._text.stop_low,
            think_end=self._text.think_end,
            table=running.table.address,
            slot=slot.number,
            ticket=slot.ticket,
        )
        return spec.to_extra_args()


def _seed(drawing: Drawing) -> int | None:
    """The seed as vLLM takes one; greedy sampling draws nothing that it could change."""
    if drawing.seed is None or drawing.sampling.temperature == 0:
        return None
    return drawing.seed % _SEEDS


def _stride(interval: int) -> int:
    """The largest divisor of `interval` up to `_STRIDE`."""
    return max(stride for stride in range(1, _STRIDE + 1) if interval % stride == 0)
