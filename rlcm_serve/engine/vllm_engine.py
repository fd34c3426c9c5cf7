"""The engine: vLLM with the probe in its model and the exit rule in its sampler."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calibration import ExitPolicy
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
from rlcm_serve.engine.contract import EngineIdentity, ReasoningEngine
from rlcm_serve.engine.diagnosis.self_test import AT_START, self_test
from rlcm_serve.engine.identity import default_text, identify, identify_under
from rlcm_serve.engine.launch import EngineSettings, set_environment, vllm_arguments
from rlcm_serve.engine.model_files import ModelFiles, load_tokenizer, resolve_model
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.requests import check_sampling, check_schema
from rlcm_serve.engine.running import RunningVllm
from rlcm_serve.engine.vllm_reasoner import VllmReasoner
from rlcm_serve.engine.weights.adapters import Adapter, require_match
from rlcm_serve.engine.worker.facts import UNKNOWN, EngineFacts
from rlcm_serve.engine.worker.hooks import check_hooks
from rlcm_serve.engine.worker.probe import PROBE_FOLDER
from rlcm_serve.engine.worker.readings.table import Inputs
from rlcm_serve.errors import (
    EngineDead,
    ModelRefused,
    ProfileRefused,
    RequestRefused,
    UnsupportedVllm,
)
from rlcm_serve.familiarity.familiarity import FAMILIARITY_FOLDER, Familiarity
from rlcm_serve.profiles.profile import DEFAULT_NAME, DEFAULT_PROFILE, Profile, unknown_profile

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

_FIRST_TOKEN = 300.0
"""Seconds in which vLLM must produce its first token; it may still have to compile."""
_NOT_RUNNING = "the engine is not running: it has not been started, or it was stopped"


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
        set_environment()
        self.settings = settings
        self.name = settings.model
        self.on_stage: Callable[[str], None] = lambda stage: None
        self.running: RunningVllm | None = None
        self._adopted = client
        self._reasoners: dict[str, VllmReasoner] = {}  # by the names of their profiles
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
        self._has_started(self.running.context, UNKNOWN)
        self.on_stage("warming up")
        try:
            async with self.running.answering(_FIRST_TOKEN):
                facts = await self.running.facts()
                await self.running.load_adapters()
                await self._default.read_state(self.prompt([Message(Role.USER, "1")]))
                self._has_started(self.running.context, facts)
                if self.settings.self_test:
                    await self_test(self, files, AT_START)
            await asyncio.to_thread(self._check_profiles, self.running)
        # An adapter that does not fit, a schema that cannot be followed, or a self-test that
        # failed; vLLM would stay.
        except (EngineDead, ModelRefused, ProfileRefused, UnsupportedVllm, TimeoutError) as error:
            died = self.running.has_died
            if not died and isinstance(error, TimeoutError):
                hung = f"vLLM started, but produced no token within {_FIRST_TOKEN:g} s"
                self.running.kill(hung)
                raise EngineDead(hung) from error
            cause = await self.running.cause_of_death() if died else ""
            await self.running.aclose()
            self.running = None
            if died:
                raise EngineDead(f"vLLM died during its start: {cause}") from error
            raise
        self.running.settle()

    def _has_started(self, context: int, facts: EngineFacts) -> None:
        for reasoner in self._reasoners.values():
            reasoner.has_started(context, facts)
        self.context, self.identity = context, self._default.identity

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
        thinking = f"thinking format: {self._default.text.format.name}"
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

    def _check_profiles(self, running: RunningVllm) -> None:
        """Raises `ProfileRefused` if vLLM cannot sample, or write answers, as a profile asks."""
        for name, reasoner in self._reasoners.items():
            try:
                check_sampling(running.llm, reasoner.identity.sampling)
                check_schema(running.llm, reasoner.identity.profile.schema_text)
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
        has_probe = files.probe is not None and self.settings.reads_probe
        exits_on_probe = has_probe and self.settings.confidence == Signal.PROBE
        self.model_folder = folder
        self.probe_folder = files.probe_folder if exits_on_probe else None
        text = default_text(self.settings, files, load_tokenizer(folder))
        self.longest_token = text.longest_token
        self.identity = identify(self.settings, files, text)
        familiarity = Familiarity.load(folder / FAMILIARITY_FOLDER) if files.familiarity else None
        self._adapters = {}
        reasoners = {}
        for profile in (DEFAULT_PROFILE, *self.settings.profiles):
            asks = text if profile is DEFAULT_PROFILE else text.under_profile(profile)
            identity = self._identity_under(profile, asks)
            reasoners[profile.name] = VllmReasoner(
                self._alive,
                self.settings,
                asks,
                identity,
                files.context or sys.maxsize,
                has_probe=has_probe,
                familiarity=familiarity if identity.familiarity else None,
            )
        for adapter in self._adapters.values():
            require_match(adapter, folder)
        self._reasoners = reasoners
        return files

    def _identity_under(self, profile: Profile, text: ModelText) -> EngineIdentity:
        """The identity under a profile; keeps the profile's adapter."""
        if profile is DEFAULT_PROFILE:
            return self.identity
        limit = self.settings.answer_max_tokens
        identity = identify_under(profile, self.identity, text, limit)
        if profile.adapter is None:
            return identity
        adapter = Adapter.read(profile.adapter)
        self._adapters[adapter.digest] = adapter
        return replace(identity, adapter=adapter.digest)

    @property
    def identities(self) -> tuple[EngineIdentity, ...]:
        """The identity under each profile, the default profile's first."""
        return tuple(reasoner.identity for reasoner in self._reasoners.values())

    def under(self, profile: str) -> VllmReasoner:
        """What generates under this profile, with the vLLM that runs now.

        Raises:
            RequestRefused: no such profile is served.
            EngineDead: the model's files have not been read yet.
        """
        known = self._known
        if profile not in known:
            raise unknown_profile(profile, [one.identity.profile for one in known.values()])
        return known[profile]

    @property
    def _known(self) -> dict[str, VllmReasoner]:
        """What generates, by the names of profiles.

        Raises:
            EngineDead: the model's files have not been read yet.
        """
        if not self._reasoners:
            raise EngineDead(_NOT_RUNNING)
        return self._reasoners

    @property
    def _default(self) -> VllmReasoner:
        """What generates under the default profile; raises as `_known`."""
        return self._known[DEFAULT_NAME]

    def stop(self) -> None:
        """Stops vLLM's processes and removes the table of readings."""
        if self.running is not None:
            self.running.close()
            self.running = None

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
            raise EngineDead(_NOT_RUNNING)
        self.running.require_alive()
        return self.running

    @property
    def stop_ids(self) -> tuple[int, int]:
        """The two unused ids that signal a high and a low exit."""
        return self._default.stop_ids

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
        return self._default.prompt(messages)

    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        """Checks that the context has room, and that vLLM can honour the seed."""
        self._default.check(prompt, generation)

    def think(
        self,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        *,
        thought: TokenIds = (),
        text: bool = False,
    ) -> AsyncGenerator[PromptReading | Delta | Reading | Rollout]:
        """Sends one request to vLLM, and takes its readings from a slot of the table."""
        return self._default.think(prompt, policy, generation, thought=thought, text=text)

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
        return await self._default.continue_after(
            prompt, thinking, text, generation, count, logprobs=logprobs
        )

    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        """Reads the entropy at the closing token; the prefix is in the cache already."""
        return await self._default.entropy_after(prompt, thinking, generation)

    async def prompt_state(self, prompt: TokenIds) -> Inputs:
        """The final-layer state (H) at the last token of a prompt, as the worker has it.

        Raises:
            EngineDead: as `VllmReasoner.prompt_state`.
        """
        return await self._default.prompt_state(prompt)
