"""The contract between the solver (solving/solver.py) and the engine that generates tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from calibration import ExitPolicy
from rlcm_serve.core import (
    Budget,
    Completion,
    Delta,
    GenerationSettings,
    Message,
    PromptReading,
    Reading,
    Rollout,
    Sampling,
    TokenIds,
)
from rlcm_serve.engine.worker.facts import UNKNOWN, EngineFacts
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, Profile, unknown_profile


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """The engine's part of a certificate's fingerprint, under one profile.

    `thinking` is the name of the thinking format, chosen or detected. `sampling` and `budget` are
    the profile's where it says them, otherwise the model's. `adapter` is the digest of the
    profile's adapter, "" without one. `ends` are the ids, by commas, that end a text beside the
    tokenizer's own end. `probe` says where confidence comes from. It is the digest of
    the probe, "" without a probe, or the definition of another signal as
    `rlcm_serve.engine.worker.signals.definition` writes it.
    `familiarity` is the digest of the familiarity reading, "" without one; a question is familiar
    if its p-value is above `familiarity_cutoff`. `facts` are known once vLLM has started.
    """

    model: str
    probe: str
    tokenizer: str
    chat_template: str
    checkpoint_interval: int
    sampling: Sampling
    budget: Budget
    forced_suffix: str
    thinking: str = ""
    profile: Profile = DEFAULT_PROFILE
    adapter: str = ""
    ends: str = ""
    familiarity: str = ""
    familiarity_cutoff: float = 0.0
    facts: EngineFacts = UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The identity as plain values, for the settings of a run.

        Parts that only profiles change, or that not every model has, are left out where they have
        their default value, and so is the name of the profile.
        """
        plain = asdict(replace(self, profile=DEFAULT_PROFILE))
        sampling, profile = plain["sampling"], self.profile.to_json()
        plain["sampling"] = {
            name: value
            for name, value in sampling.items()
            if value or name not in ("top_k", "min_p")
        }
        added = {
            "thinking": self.thinking,
            "profile": profile,
            "adapter": self.adapter,
            "ends": self.ends,
            "familiarity": self.familiarity,
            "familiarity_cutoff": self.familiarity_cutoff,
            "facts": self.facts.to_json(),
        }
        for name, value in added.items():
            del plain[name]
            plain |= {name: value} if value else {}
        return plain


class Reasoner(ABC):
    """Generates reasoning under an exit policy, and short continuations of forced prefixes.

    It has one profile, and makes no decision about answers. It stops a rollout at the checkpoint
    where the policy says so, and reports every reading it took. It never alters a policy and never
    changes its identity. Many tasks of one event loop may call the methods at the same time. Once
    the engine has died, every method raises `EngineDead`; none waits forever.
    """

    identity: EngineIdentity

    context: int
    """Tokens that a sequence can have."""

    longest_token: int
    """Characters of the longest token."""

    def require_room(self, messages: Sequence[Message]) -> None:
        """Returns if the conversation may fit into the context, as far as its length tells.

        It cannot if it has more characters than so many of the longest tokens, or more messages
        than tokens. Only `prompt` and `check` know for sure; this costs nothing.

        Raises:
            RequestRefused: it is too long.
        """
        characters = sum(len(message.content) for message in messages)
        for counted, what, most in (
            (len(messages), "messages", self.context),
            (characters, "characters", self.context * self.longest_token),
        ):
            if counted > most:
                raise RequestRefused(
                    "problem",
                    f"the conversation has {counted} {what}, but the model's context of "
                    f"{self.context} tokens holds at most {most}: shorten it",
                )

    @abstractmethod
    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """The tokens of a conversation in the model's chat template, up to where thinking begins.

        Takes time in proportion to the messages. May be called from any thread.

        Raises:
            RequestRefused: the conversation is too long, or the chat template does not accept it.
        """

    @abstractmethod
    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        """Returns if `think` would accept this prompt and these settings.

        Of a caller's schema, this is the only check: it may take milliseconds, and `think` runs
        once for every sample.

        Raises:
            RequestRefused: prompt and budget do not fit into the model's context, no answer can
                follow the schema, or the engine cannot honour the seed.
        """

    @abstractmethod
    def think(
        self,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        *,
        thought: TokenIds = (),
        text: bool = False,
    ) -> AsyncGenerator[PromptReading | Delta | Reading | Rollout]:
        """Generates one rollout, until the policy, the model or the budget ends it.

        Yields a `PromptReading` first, if the engine reads familiarity. Then a `Delta` whenever
        tokens arrive (with their text if `text` is set), and every `Reading` as soon as it is
        available, including the final one. The last item is one `Rollout` with all readings. With
        a schema in `generation` it has no answer of the model's own, which need not follow it: the
        sample ends with its thinking, where the thinking is marked.
        Closing the iterator early aborts the generation inside the engine.

        With `thought`, the rollout goes on from these reasoning tokens, fewer than its budget. They
        are its first ones: the budget and every reading count them, and the last item has their
        text too. Deltas and readings are those of new tokens, familiarity is not read again, and
        the policy sees no token before.

        Raises:
            RequestRefused: as `check`.
        """

    @abstractmethod
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
        """Closes the thinking, appends `text`, and samples `count` continuations.

        Each has at most `generation.budget.answer` tokens. With `logprobs` it also has its pieces.
        A model without a closing token continues with `text` on a new line.
        """

    @abstractmethod
    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        """The entropy of the next token if the thinking were closed here (EAT, arXiv 2509.26522).

        Returns:
            The entropy in nats of the token after the closing one, over the whole vocabulary and at
            temperature 1; None for a model without a closing token.
        """


class ReasoningEngine(Reasoner):
    """An engine: it starts, stops, and generates under its profiles.

    Its own methods generate under the default profile. Its attributes are known once `start` has
    returned, and do not change until it is started again.
    """

    name: str
    """The model's name in the API."""

    model_folder: Path | None = None
    """Folder of the model's files; None if there is none."""

    probe_folder: Path | None = None
    """Folder of the probe that exits act on; None if they act on something else."""

    @abstractmethod
    async def start(self) -> None:
        """Loads the model. May be called again after `stop` or after the engine has died.

        Raises:
            ModelRefused: the model cannot be controlled; the message says why.
            EngineDead: the engine could not start.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stops the engine and frees its resources; may be called twice."""

    @abstractmethod
    async def check_health(self) -> None:
        """Returns if the engine can serve; raises `EngineDead` if it cannot."""

    async def cause_of_death(self) -> str:
        """Why an engine that died did so, as far as is known: for the operator's log alone."""
        return "it does not say why"

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Requests in progress: samples that think and answers that are being forced."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Outputs received since the start, for all requests together; each has new tokens."""

    @property
    def has_metrics(self) -> bool:
        """Whether vLLM's metrics of this engine are in this process' registry for Prometheus."""
        return False

    @abstractmethod
    async def canary(self) -> None:
        """Asks for one token; returns once it has arrived. Counts as output, not as in flight."""

    @abstractmethod
    def kill(self, reason: str) -> None:
        """Kills an engine that hangs; returns at once. Later calls raise `EngineDead(reason)`."""

    @property
    def identities(self) -> tuple[EngineIdentity, ...]:
        """The identity under each profile, the default profile's first."""
        return (self.identity,)

    def under(self, profile: str) -> Reasoner:
        """What generates under the profile of this name, until the engine stops or dies.

        Raises:
            RequestRefused: the engine has no such profile; the message lists its profiles.
        """
        if profile != self.identity.profile.name:
            raise unknown_profile(profile, [one.profile for one in self.identities])
        return self
