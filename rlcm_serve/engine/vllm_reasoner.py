"""Generates with vLLM as one profile asks: thinking under an exit policy, and forced answers."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any

from calibration import FULL_BUDGET, ExitPolicy
from rlcm_serve.core import (
    Completion,
    Delta,
    GenerationSettings,
    Message,
    PromptReading,
    Reading,
    Rollout,
    Signal,
    TokenIds,
)
from rlcm_serve.engine.contract import EngineIdentity, Reasoner
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.requests import (
    check_schema,
    log_probs_of,
    once_admitted,
    sampling_params,
    seed_of,
    stride_of,
    structured_outputs,
)
from rlcm_serve.engine.running import RunningVllm
from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.facts import EngineFacts
from rlcm_serve.engine.worker.readings.slots import Slot, named
from rlcm_serve.engine.worker.readings.table import Inputs
from rlcm_serve.engine.worker.signals import ENTROPY, TokenSignals
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.familiarity.familiarity import Familiarity
from rlcm_serve.profiles.bounded_schemas import require_bounded


class VllmReasoner(Reasoner):
    """An engine's vLLM under one profile; see `Reasoner` for the contract.

    The engine starts and stops vLLM. All profiles share the vLLM that runs now.

    Args:
        vllm: gives the vLLM that runs now, or raises `EngineDead`.
        settings: of the engine.
        text: of the model, under the profile.
        identity: of the engine, under the profile.
        context: tokens that a sequence can have; the vLLM that runs may hold fewer.
        has_probe: whether the engine reads a probe.
        familiarity: what reads the familiarity of prompts; None reads none.
    """

    def __init__(
        self,
        vllm: Callable[[], RunningVllm],
        settings: EngineSettings,
        text: ModelText,
        identity: EngineIdentity,
        context: int,
        *,
        has_probe: bool,
        familiarity: Familiarity | None,
    ) -> None:
        self.settings, self.text, self.identity = settings, text, identity
        self.context, self.longest_token = context, text.longest_token
        self._vllm = vllm
        self._has_probe, self._familiarity = has_probe, familiarity

    def has_started(self, context: int, facts: EngineFacts) -> None:
        """Takes what is known once vLLM runs."""
        self.context, self.identity = context, replace(self.identity, facts=facts)

    def with_interval(self, interval: int) -> VllmReasoner:
        """The same with so many tokens between two readings."""
        return VllmReasoner(
            self._vllm,
            self.settings,
            self.text,
            replace(self.identity, checkpoint_interval=interval),
            self.context,
            has_probe=self._has_probe,
            familiarity=self._familiarity,
        )

    @property
    def stop_ids(self) -> tuple[int, int]:
        """The two unused ids that signal a high and a low exit."""
        return self.text.stop_high, self.text.stop_low

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """Applies the model's chat template; special tokens in a message stay plain text."""
        self.require_room(messages)
        return self.text.prompt(messages)

    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        """Checks room in the context, the schema, and that vLLM can honour the seed."""
        self._require_room(prompt, generation)
        if generation.schema != self.identity.profile.schema_text:
            require_bounded(generation.schema)
            check_schema(self._vllm().llm, generation.schema)

    def _require_room(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        """As `check`, but for the schema, which takes milliseconds."""
        running = self._vllm()
        budget = generation.budget
        answering = self.text.suffix_tokens + budget.answer + 2
        needed = len(prompt) + budget.thinking + answering
        if needed > running.context:
            is_longer = budget.thinking > self.identity.budget.thinking
            room = running.context - len(prompt) - answering
            remedy = "shorten the problem" + (f", or give max_tokens {room} or less" * (room > 0))
            raise RequestRefused(
                "max_tokens" if is_longer else "problem",
                f"the prompt has {len(prompt)} tokens; with {budget.thinking} for thinking and "
                f"{answering} for the answer that makes {needed}, but the model's context holds "
                f"{running.context}: {remedy}",
            )
        if seed_of(generation) is not None and not running.honours_seeds:
            raise RequestRefused(
                "seed",
                f"seed is {generation.seed}, but on a CPU vLLM honours a seed only without chunked "
                "prefill: leave the seed out, set temperature to 0, or start the service with "
                "`-- --no-enable-chunked-prefill`",
            )

    async def think(
        self,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        *,
        thought: TokenIds = (),
        text: bool = False,
    ) -> AsyncGenerator[PromptReading | Delta | Reading | Rollout]:
        """Sends one request to vLLM, and takes its readings from a slot of the table."""
        self._require_room(prompt, generation)
        running, budget = self._vllm(), generation.budget
        rest = replace(budget, thinking=budget.thinking - len(thought))
        most, ends = self.text.ends(rest, answers=generation.schema is None)
        params = sampling_params(generation, most, ends)
        params.stream_interval = 1 if text else stride_of(self.identity.checkpoint_interval)
        stream = self.text.stream(text=text, after=thought)
        slot = await running.table.acquire(self.identity.checkpoint_interval, start=len(thought))
        tokens: list[int] = []
        readings: list[Reading] = []
        stop_reason: int | str | None = None
        cached, answers, is_cut = 0, False, False
        familiarity: float | None = None
        final: Reading | None = None
        try:
            params.extra_args = self._control(
                running, slot, policy, rest.thinking, self.settings.confidence
            )
            async with running.outputs(
                (*prompt, *thought),
                params,
                generation.priority,
                generation.cache_salt,
                self.identity.adapter,
            ) as outputs:
                async for output in outputs:
                    (part,) = output.outputs
                    first = not tokens and not thought
                    tokens += part.token_ids
                    if first and self._familiarity is not None:
                        await slot.catch_up(len(tokens))
                        familiarity = _familiarity_of(self._familiarity, slot)
                        yield PromptReading(familiarity)
                    stop_reason, cached = part.stop_reason, output.num_cached_tokens or 0
                    is_cut = part.finish_reason == "length"
                    if sampled := self.text.sampled(part.token_ids):
                        for delta in stream.push(sampled):
                            yield delta
                            answers = answers or delta.is_answer
                    has_end = answers or part.finish_reason is not None
                    await slot.catch_up(len(tokens), end=has_end and final is None)
                    for reading in slot.new(len(tokens)):
                        readings.append(reading)
                        yield reading
                    # Early, because it tells whether the text that follows is given as an answer.
                    if answers and final is None and (final := slot.final()) is not None:
                        yield final
            ids = (*thought, *tokens)
            rollout = self.text.rollout(ids, stop_reason, budget, is_cut=is_cut)
            told, length = final, len(rollout.tokens)
            final = final or slot.final(length)
            if final is None and rollout.exit.is_own_end:
                await slot.catch_up(len(tokens), figures=True)
            signals, statistics = slot.token_signals(length), slot.statistics(length)
        finally:
            running.table.release(slot)
        for delta in stream.flush():
            yield delta
        if rollout.exit.is_own_end:
            if final is None:  # ended by an end of text, so no later step read the state
                ended = (*prompt, *rollout.tokens)
                final = await self._read_end(ended, length, signals, statistics, generation)
            readings.append(final)
            if told is None:
                yield final
        yield replace(
            rollout,
            readings=tuple(readings),
            cached_prompt_tokens=min(cached, len(prompt)),
            familiarity=familiarity,
        )

    async def prompt_state(self, prompt: TokenIds) -> Inputs:
        """The final-layer state (H) at the last token of a prompt, as the worker has it.

        Needs `record_inputs`, and one request to vLLM.

        Raises:
            EngineDead: the engine died, or returned no reading.
        """
        inputs = (await self.read_state(prompt)).inputs
        if inputs is None:
            raise RuntimeError("the engine records no states: start it with record_inputs")
        return inputs[: -len(STATISTICS)]

    @once_admitted
    async def continue_after(
        self,
        prompt: TokenIds,
        thinking: TokenIds,
        text: str,
        generation: GenerationSettings,
        count: int = 1,
        *,
        logprobs: bool = False,
    ) -> tuple[Completion, ...]:
        """Sends one request to vLLM; its prefix is in the cache already."""
        running = self._vllm()
        params = sampling_params(generation, generation.budget.answer, tuple(self.text.end_ids))
        params.n = count
        params.structured_outputs = structured_outputs(generation.schema)
        params.logprobs = 0 if logprobs else None  # of the sampled token only
        ids: list[list[int]] = [[] for _ in range(count)]
        log_probs: list[list[float]] = [[] for _ in range(count)]
        complete = [False] * count
        suffix = self.text.close(text, after=thinking)
        sample = (*thinking, *suffix)
        async with running.outputs(
            (*prompt, *sample),
            params,
            generation.priority,
            generation.cache_salt,
            self.identity.adapter,
        ) as outputs:
            async for output in outputs:
                for part in output.outputs:
                    ids[part.index] += part.token_ids
                    log_probs[part.index] += log_probs_of(part)
                    complete[part.index] = part.finish_reason == "stop"
        return tuple(
            Completion(
                self.text.continuation(own, after=sample),
                len(own),
                tuple(zip(self.text.pieces(own), found, strict=True)) if logprobs else None,
                ended,
                len(suffix),
            )
            for own, found, ended in zip(ids, log_probs, complete, strict=True)
        )

    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        """Reads the entropy at the closing token; the prefix is in the cache already."""
        if self.text.think_end is None:
            return None
        closed = (*prompt, *thinking, *self.text.close(after=thinking))
        return (await self.read_state(closed, generation, ENTROPY)).confidence

    async def _read_end(
        self,
        ended: TokenIds,
        length: int,
        token_signals: TokenSignals | None,
        statistics: Inputs | None,
        generation: GenerationSettings,
    ) -> Reading:
        """Reads c_end for a rollout whose last state was not read while it ran.

        Args:
            ended: the prompt and the `length` reasoning tokens.
            length: of the reasoning.
            token_signals, statistics: after all of its tokens, if they were tracked.
            generation: settings of the rollout.
        """
        state = Reading(length, math.nan)
        if self._has_probe or token_signals is None or self.settings.record_inputs:
            state = await self.read_state(ended, generation, statistics=statistics)
        end = replace(state, tokens=length, is_final=True)
        if token_signals is None:
            return end
        signals = (state.confidence, *token_signals)
        confidence = signals[list(Signal).index(Signal(self.settings.confidence))]
        return replace(end, confidence=confidence, signals=named(signals))

    @once_admitted
    async def read_state(
        self,
        prefix: TokenIds,
        of: GenerationSettings | None = None,
        reads: str = Signal.PROBE.value,
        statistics: Inputs | None = None,
    ) -> Reading:
        """Takes a reading at the last token of `prefix`, with a separate request.

        The request has the priority and the cache of the request `of`. `statistics` are those of
        the reasoning tokens in the prefix.
        """
        running = self._vllm()
        generation = GenerationSettings(self.identity.budget, self.identity.sampling)
        if of is not None:
            generation = replace(generation, priority=of.priority, cache_salt=of.cache_salt)
        params = sampling_params(generation, 1, self.stop_ids)
        slot = await running.table.acquire(self.identity.checkpoint_interval)
        try:
            known = () if statistics is None else tuple(statistics.tolist())
            params.extra_args = self._control(running, slot, FULL_BUDGET, 0, reads, known)
            async with running.outputs(
                prefix, params, generation.priority, generation.cache_salt, self.identity.adapter
            ) as outputs:
                async for _ in outputs:
                    pass
            await slot.catch_up(1, end=True)
            final = slot.final()
        finally:
            running.table.release(slot)
        if final is None:
            raise EngineDead(
                "the engine returned no reading, so vLLM does not call the exit processor: install "
                "a supported vLLM (`make install`)"
            )
        return final

    def _control(
        self,
        running: RunningVllm,
        slot: Slot,
        policy: ExitPolicy,
        budget: int,
        reads: str,
        statistics: tuple[float, ...] = (),
    ) -> dict[str, Any]:
        """The extra arguments of a request."""
        spec = ControlSpec(
            policy=policy,
            interval=self.identity.checkpoint_interval,
            budget=budget,
            stop_high=self.text.stop_high,
            stop_low=self.text.stop_low,
            think_end=self.text.think_end,
            table=running.table.address,
            slot=slot.number,
            ticket=slot.ticket,
            reads=str(reads),
            statistics=statistics,
        )
        return spec.to_extra_args()


def _familiarity_of(familiarity: Familiarity, slot: Slot) -> float:
    """The p-value of the prompt whose first token has arrived."""
    state_H = slot.prompt_state()
    if state_H is None:
        raise EngineDead("the engine returned no state of the prompt: restart the service")
    return familiarity.p_value(state_H)
