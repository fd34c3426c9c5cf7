"""The contract between a question's story (solving/solver.py) and what generates tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from calibration import ExitPolicy
from rlcm_serve.core import (
    Budget,
    Completion,
    Delta,
    GenerationSettings,
    Message,
    Reading,
    Rollout,
    Sampling,
    TokenIds,
)
from rlcm_serve.engine.prompts import FORCED_ANSWER


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """What of an engine goes into a certificate's fingerprint: digests, and its fixed settings.

    `probe` says where confidence comes from: the probe's digest, "" without one, or for any other
    signal its definition, as `rlcm_serve.engine.worker.signals.definition` writes it.
    """

    model: str
    probe: str
    tokenizer: str
    chat_template: str
    checkpoint_interval: int
    sampling: Sampling
    budget: Budget
    forced_suffix: str


class ReasoningEngine(ABC):
    """Generates reasoning under an exit policy, and short continuations of forced prefixes.

    An engine decides nothing about answers: it stops a rollout at the checkpoint where the policy
    says so, and reports every reading it took. It never alters a policy, and never changes its
    identity after `start`. All methods may be called by many tasks of one event loop at a time.
    Every method raises `EngineDead` once the engine is gone; none waits for ever.
    """

    name: str
    """The model's name as callers see it."""

    identity: EngineIdentity
    """Known once `start` has returned."""

    suffix_tokens: int
    """Length of the forced suffix; known once `start` has returned."""

    @abstractmethod
    async def start(self) -> None:
        """Loads the model; after `stop`, or once the engine has died, it may be called again.

        Raises:
            ModelRefused: the model cannot be controlled; the message says why.
            EngineDead: the engine could not start.
        """

    @abstractmethod
    def stop(self) -> None:
        """Ends the engine and frees what it holds; may be called twice."""

    @abstractmethod
    async def check_health(self) -> None:
        """Returns if the engine can serve; raises `EngineDead` if it cannot."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Requests that are being worked on: samples that think, answers that are forced."""

    @abstractmethod
    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """The tokens of a conversation in the model's chat template, up to where thinking begins.

        Raises:
            RequestRefused: the template does not take these turns.
        """

    @abstractmethod
    def check(self, prompt: TokenIds, generation: GenerationSettings) -> None:
        """Returns if `think` would take this.

        Raises:
            RequestRefused: prompt and budget do not fit into the model's context, or the engine
                cannot honour the generation.
        """

    @abstractmethod
    def think(
        self,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        *,
        text: bool = False,
    ) -> AsyncGenerator[Delta | Reading | Rollout]:
        """Thinks until the policy, the model or the budget ends it.

        Yields a `Delta` whenever tokens arrive (with their text if `text` is set) and every
        `Reading` as soon as the caller can have it, the final reading included; then exactly one
        `Rollout` with all readings. Closing the iterator early aborts the generation inside the
        engine.

        Raises:
            RequestRefused: as `check`.
        """

    async def force_answers(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings, count: int = 1
    ) -> tuple[Completion, ...]:
        r"""Samples `count` answers forced after `thinking` (RLCM App. A).

        Each has at most `generation.budget.answer` tokens. The text begins inside `\boxed{`.
        """
        return await self.continue_after(prompt, thinking, FORCED_ANSWER, generation, count)

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
        """Closes the thinking, writes `text` after it, and samples `count` continuations of that.

        Each has at most `generation.budget.answer` tokens, and with `logprobs` its pieces. A model
        that does not close its thinking with a token goes on with `text` on a new line.
        """

    @abstractmethod
    async def entropy_after(
        self, prompt: TokenIds, thinking: TokenIds, generation: GenerationSettings
    ) -> float | None:
        """How open it is what the model would say if its thinking were closed (EAT, 2509.26522).

        Returns:
            The entropy in nats of the next token after the closing one, over the whole vocabulary
            and at temperature 1; None for a model that does not close its thinking with a token.
        """
