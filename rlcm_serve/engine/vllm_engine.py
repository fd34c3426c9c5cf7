"""The engine: vLLM with the probe in its model and the exit rule in its sampler."""

from __future__ import annotations

import asyncio
import math
import os
import shlex
from collections.abc import AsyncGenerator, Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibration import FULL_BUDGET, ExitPolicy
from rlcm_serve.core import (
    Completion,
    Delta,
    GenerationSettings,
    Message,
    PromptReading,
    Reading,
    Role,
    Rollout,
    Signal,
    TokenIds,
)
from rlcm_serve.engine.clients.adopted import AdoptedClient
from rlcm_serve.engine.clients.arguments import require_exit_control
from rlcm_serve.engine.clients.base import Client
from rlcm_serve.engine.clients.launched import LaunchedClient
from rlcm_serve.engine.contract import EngineIdentity, Reasoner, ReasoningEngine
from rlcm_serve.engine.diagnosis.self_test import AT_START, self_test
from rlcm_serve.engine.identity import default_text, identify, identify_under
from rlcm_serve.engine.launch import ENVIRONMENT, EngineSettings, vllm_arguments
from rlcm_serve.engine.model_files import ModelFiles, load_tokenizer, resolve_model
from rlcm_serve.engine.requests import (
    check_schema,
    log_probs_of,
    require_bounded,
    sampling_params,
    seed_of,
    stride_of,
    structured_outputs,
)
from rlcm_serve.engine.running import RunningVllm
from rlcm_serve.engine.weights.adapters import Adapter, require_match
from rlcm_serve.engine.worker.exit_control import ControlSpec
from rlcm_serve.engine.worker.hooks import check_hooks
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.engine.worker.readings.slots import Slot, named
from rlcm_serve.engine.worker.readings.table import Inputs
from rlcm_serve.engine.worker.signals import ENTROPY, TokenSignals
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import (
    EngineDead,
    ModelRefused,
    ProfileRefused,
    RequestRefused,
    UnsupportedVllm,
)
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity
from rlcm_serve.profiles.profile import Profile, unknown_profile

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

_FIRST_TOKEN = 300.0
"""Seconds in which vLLM must produce its first token; it may still have to compile."""


class VllmEngine(ReasoningEngine):
    """vLLM under exit control; see `ReasoningEngine` for the contract.

    Args:
        settings: what to serve, and how.
        client: a client of a vLLM that runs, to adopt it; None launches vLLM at the start. An
            adopted vLLM must have been started with the arguments that a launch would give it.
            `stop` and `kill` leave it running.
    """

    def __init__(self, settings: EngineSettings, client: AsyncLLM | None = None) -> None:
        if client is not None and settings.vllm_arguments:
            raise ModelRefused(
                f"vLLM runs already, so it cannot take {shlex.join(settings.vllm_arguments)}: give "
                "these arguments to vLLM itself"
            )
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.settings = settings
        self.name = settings.model
        self.on_stage: Callable[[str], None] = lambda stage: None
        self.running: RunningVllm | None = None
        self._adopted = client
        self._under: dict[str, VllmEngine] = {}
        self._adapters: dict[str, Adapter] = {}  # by digest

    async def start(self) -> None:
        """Reads the model's files, starts vLLM, and takes one reading as a test."""
        if self.running is not None:
            await self.running.aclose()
            self.running = None
        self.on_stage("reading the model's files")
        files = await asyncio.to_thread(self._read_files)
        adapters = tuple(self._adapters.values())
        client = await self._connect(files, adapters)
        interval = self.identity.checkpoint_interval
        self.running = RunningVllm(client, self.settings, files, interval, adapters)
        await self.running.connect()
        self.context = self.running.context
        self.on_stage("warming up")
        try:
            async with asyncio.timeout(_FIRST_TOKEN):
                facts = await self.running.facts()
                await self.running.load_adapters()
                await self._read_state(self.prompt([Message(Role.USER, "1")]))
                self.identity = replace(self.identity, facts=facts)
                if self.settings.self_test:
                    await self_test(self, files, AT_START)
            await asyncio.to_thread(self._check_schemas, self.running)
        # An adapter that does not fit, a schema that cannot be followed, or a self-test that
        # failed; vLLM would stay.
        except (EngineDead, ModelRefused, ProfileRefused, UnsupportedVllm) as error:
            died = self.running.has_died
            cause = await self.running.cause_of_death() if died else ""
            await self.running.aclose()
            self.running = None
            if died:
                raise EngineDead(f"vLLM died during its start: {cause}") from error
            raise
        except TimeoutError as error:
            hung = f"vLLM started, but produced no token within {_FIRST_TOKEN:g} s"
            self.running.kill(hung)
            raise EngineDead(hung) from error
        self.running.settle()
        for other in self._under.values():
            other.running, other.context = self.running, self.context
            other.identity = replace(other.identity, facts=facts)

    def command_line(self) -> list[str]:
        """The arguments with which vLLM's own server gives its client exit control.

        The model is not among them.

        Raises:
            ModelRefused, UnsupportedVllm: as `start`.
        """
        files = self._read_files()
        return vllm_arguments(self.settings, files, self.stop_ids, tuple(self._adapters.values()))

    async def _connect(self, files: ModelFiles, adapters: Sequence[Adapter]) -> Client:
        """A vLLM that is started now, or the adopted one, under exit control."""
        thinking = f"thinking format: {self._text.format.name}"
        if self._adopted is None:
            self.on_stage(f"starting vLLM; {thinking}")
            return await LaunchedClient.start(
                self.settings, files, self.stop_ids, self.on_stage, adapters
            )
        self.on_stage(f"adopting vLLM; {thinking}")
        if warning := check_hooks():
            self.on_stage(warning)
        vllm_config = self._adopted.vllm_config
        require_exit_control(vllm_config, self.settings, files, self.stop_ids, adapters)
        return AdoptedClient(self._adopted)

    def _check_schemas(self, running: RunningVllm) -> None:
        """Raises `ProfileRefused` if answers cannot follow the schema of a profile."""
        for name, other in self._under.items():
            try:
                check_schema(running.llm, other.identity.profile.schema_text)
            except RequestRefused as error:
                raise ProfileRefused(f"profile {name!r}: {error}") from error

    def _read_files(self) -> ModelFiles:
        folder = resolve_model(self.settings.model)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything needed is in the folder
        files = ModelFiles.read(folder, self.settings.probe)
        needed = self.settings.needs_probe and self.settings.confidence == Signal.PROBE
        if files.probe is None and needed:
            raise ModelRefused(
                f"{folder} holds no {PROBE_FOLDER}/: train a probe with "
                f"`rlcm train probe --model {self.settings.model} --data problems.jsonl`, or take "
                "confidence from the tokens alone with `--confidence sequence-probability`"
            )
        self._has_probe = files.probe is not None and self.settings.reads_probe
        exits_on_probe = self._has_probe and self.settings.confidence == Signal.PROBE
        self.probe_folder = files.probe_folder if exits_on_probe else None
        self._text = default_text(self.settings, files, load_tokenizer(folder))
        self.longest_token = self._text.longest_token
        self.identity = identify(self.settings, files, self._text)
        self._familiarity = (
            Familiarity.load(folder / FAMILIARITY_FOLDER) if files.familiarity else None
        )
        self._adapters = {}
        self._under = {one.name: self._with_profile(one) for one in self.settings.profiles}
        for adapter in self._adapters.values():
            require_match(adapter, folder)
        return files

    def _with_profile(self, profile: Profile) -> VllmEngine:
        """The same engine with another text and identity; it gets vLLM once that runs."""
        other = copy(self)
        other._text = self._text.under_profile(profile)
        limit = self.settings.answer_max_tokens
        identity = identify_under(profile, self.identity, other._text, limit)
        if profile.adapter is not None:
            adapter = Adapter.read(profile.adapter)
            self._adapters[adapter.digest] = adapter
            identity = replace(identity, adapter=adapter.digest)
        other.identity = identity
        other._familiarity = self._familiarity if other.identity.familiarity else None
        return other

    @property
    def identities(self) -> tuple[EngineIdentity, ...]:
        """The identity under each profile, the default profile's first."""
        return (self.identity, *(other.identity for other in self._under.values()))

    def under(self, profile: str) -> Reasoner:
        """The engine under this profile, with the vLLM that runs now."""
        if profile == self.identity.profile.name:
            return self
        if profile not in self._under:
            raise unknown_profile(profile, [one.profile for one in self.identities])
        return self._under[profile]

    def stop(self) -> None:
        """Stops vLLM's processes and removes the table of readings."""
        if self.running is not None:
            self.running.close()
            self.running = None
        for other in self._under.values():
            other.running = None

    async def check_health(self) -> None:
        """Raises `EngineDead` unless vLLM reports that it runs."""
        self._alive()

    async def cause_of_death(self) -> str:
        """How vLLM's processes ended, and what vLLM logged last."""
        if self.running is None:
            return await super().cause_of_death()
        return await self.running.cause_of_death()

    def _alive(self) -> RunningVllm:
        if self.running is None:
            raise EngineDead(
                "the engine is not running: it has not been started, or it was stopped"
            )
        self.running.require_alive()
        return self.running

    @property
    def stop_ids(self) -> tuple[int, int]:
        """The two unused ids that signal a high and a low exit."""
        return self._text.stop_high, self._text.stop_low

    @property
    def in_flight(self) -> int:
        """Unfinished requests of this service in vLLM."""
        return 0 if self.running is None else self.running.in_flight

    @property
    def has_metrics(self) -> bool:
        """Whether vLLM runs and records its metrics."""
        return self.running is not None and self.settings.log_stats

    @property
    def outputs(self) -> int:
        """Outputs of the vLLM that runs now."""
        return 0 if self.running is None else self.running.outputs_received

    async def canary(self) -> None:
        """Sends one request without exit control."""
        await self._alive().canary()

    def kill(self, reason: str) -> None:
        """Sends SIGKILL to all of vLLM's processes."""
        if self.running is not None:
            self.running.kill(reason)

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """Applies the model's chat template; special tokens in a message stay plain text."""
        self.require_room(messages)
        return self._text.prompt(messages)

    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        """Checks that the context has room, and that vLLM can honour the seed."""
        running = self._alive()
        budget = generation.budget
        answering = self._text.suffix_tokens + budget.answer + 2
        needed = len(prompt) + budget.thinking + answering
        if needed > running.context:
            raise RequestRefused(
                "problem",
                f"the prompt has {len(prompt)} tokens; with {budget.thinking} for thinking and "
                f"{answering} for the answer that makes {needed}, but the model's context holds "
                f"{running.context}: shorten the problem or lower max_tokens",
            )
        if generation.schema != self.identity.profile.schema_text:
            require_bounded(generation.schema)
            check_schema(running.llm, generation.schema)
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
        text: bool = False,
    ) -> AsyncGenerator[PromptReading | Delta | Reading | Rollout]:
        """Sends one request to vLLM, and takes its readings from a slot of the table."""
        self.check(prompt, generation)
        running, budget = self._alive(), generation.budget
        most, ends = self._text.ends(budget, answers=generation.schema is None)
        params = sampling_params(generation, most, ends)
        params.stream_interval = 1 if text else stride_of(self.identity.checkpoint_interval)
        stream = self._text.stream(text=text)
        slot = await running.table.acquire(self.identity.checkpoint_interval)
        tokens: list[int] = []
        readings: list[Reading] = []
        stop_reason: int | str | None = None
        cached, answers, is_cut = 0, False, False
        familiarity: float | None = None
        final: Reading | None = None
        try:
            params.extra_args = self._control(
                running, slot, policy, budget.thinking, self.settings.confidence
            )
            async with running.outputs(
                prompt, params, generation.priority, generation.cache_salt, self.identity.adapter
            ) as outputs:
                async for output in outputs:
                    (part,) = output.outputs
                    first = not tokens
                    tokens += part.token_ids
                    if first and self._familiarity is not None:
                        await slot.catch_up(len(tokens))
                        familiarity = _familiarity_of(self._familiarity, slot)
                        yield PromptReading(familiarity)
                    stop_reason, cached = part.stop_reason, output.num_cached_tokens or 0
                    is_cut = part.finish_reason == "length"
                    if sampled := self._text.sampled(part.token_ids):
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
            rollout = self._text.rollout(tokens, stop_reason, budget, is_cut=is_cut)
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
        inputs = (await self._read_state(prompt)).inputs
        if inputs is None:
            raise RuntimeError("the engine records no states: start it with record_inputs")
        return inputs[: -len(STATISTICS)]

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
        running = self._alive()
        params = sampling_params(generation, generation.budget.answer, tuple(self._text.end_ids))
        params.n = count
        params.structured_outputs = structured_outputs(generation.schema)
        params.logprobs = 0 if logprobs else None  # of the sampled token only
        ids: list[list[int]] = [[] for _ in range(count)]
        log_probs: list[list[float]] = [[] for _ in range(count)]
        complete = [False] * count
        suffix = self._text.close(text, after=thinking)
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
                self._text.continuation(own, after=sample),
                len(own),
                tuple(zip(self._text.pieces(own), found, strict=True)) if logprobs else None,
                ended,
                len(suffix),
            )
            for own, found, ended in zip(ids, log_probs, complete, strict=True)
        )

    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        """Reads the entropy at the closing token; the prefix is in the cache already."""
        if self._text.think_end is None:
            return None
        closed = (*prompt, *thinking, *self._text.close(after=thinking))
        return (await self._read_state(closed, generation, ENTROPY)).confidence

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
            state = await self._read_state(ended, generation, statistics=statistics)
        end = replace(state, tokens=length, is_final=True)
        if token_signals is None:
            return end
        signals = (state.confidence, *token_signals)
        confidence = signals[list(Signal).index(Signal(self.settings.confidence))]
        return replace(end, confidence=confidence, signals=named(signals))

    async def _read_state(
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
        running = self._alive()
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
            stop_high=self._text.stop_high,
            stop_low=self._text.stop_low,
            think_end=self._text.think_end,
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
