"""One sample of a question, from its first token to its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from calibration import INITIAL_STATE, ExitPolicy, ExitReason, answers_at_end, step
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.core import (
    CancelledSample,
    Delta,
    GenerationSettings,
    PromptReading,
    Reading,
    Rollout,
    Sample,
    TokenIds,
)
from rlcm_serve.engine.contract import Reasoner
from rlcm_serve.errors import EngineDead
from rlcm_serve.events import CheckpointEvent, ExitEvent, OnEvent, TokenEvent
from rlcm_serve.solving.gate import FamiliarityGate


class SampleRun:
    """Runs one sample: lets it think, then gets its answer."""

    def __init__(
        self,
        engine: Reasoner,
        number: int,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        on_event: OnEvent,
        text: bool,
        gate: FamiliarityGate,
        on_progress: Callable[[], None],
    ) -> None:
        self.number = number
        self.thinking = True
        """False once its answer is forced, which takes only a few tokens and is not cancelled."""
        self.passed = -1
        """A depth in reasoning tokens that its thinking is certain to exceed."""
        self._engine = engine
        self._prompt = prompt
        self._policy = policy
        self._generation = _settings_of_sample(generation, number)
        self._on_event = on_event
        self._text = text
        self._gate = gate
        self._on_progress = on_progress
        self._tokens = 0
        self._thought = 0
        self._readings: list[Reading] = []
        self._ids: list[int] = []
        self._ended: Rollout | None = None

    async def run(self) -> Sample:
        """Thinks until the exit, then answers if the policy allows it.

        Raises:
            Declined: the question is unfamiliar, and the caller wants no answer then.
        """
        rollout = self._ended = await self._think()
        self.thinking = False
        tokens, confidence = len(rollout.tokens), rollout.confidence
        self._pass(tokens - 1)
        self._on_event(ExitEvent(self.number, rollout.exit, tokens, confidence))
        if not gives_answer(self._policy, rollout):
            return Sample(rollout, answer=None, answer_tokens=rollout.answer_tokens)
        found = await answer_rollout(self._engine, self._prompt, rollout, self._generation)
        return Sample(
            rollout,
            found.answers[0],
            found.tokens,
            found.suffix_tokens,
            found.text,
            found.is_cut,
            found.forced,
        )

    def cancelled(self) -> CancelledSample:
        """The sample as far as it came, after it was cancelled."""
        return CancelledSample(self._tokens, tuple(self._readings), tuple(self._ids), self._ended)

    async def _think(self) -> Rollout:
        thinking = self._engine.think(self._prompt, self._policy, self._generation, text=self._text)
        async with aclosing(thinking):
            async for event in thinking:
                match event:
                    case PromptReading():
                        self._gate.read(event)
                    case Delta(tokens, text, is_answer):
                        self._tokens += tokens
                        self._ids += event.ids
                        if not is_answer:
                            self._thought += tokens
                            # The token that closes the thinking came along, and does not count.
                            self._pass(self._thought - 2)
                        if text:
                            self._on_event(TokenEvent(self.number, tokens, text, is_answer))
                    case Reading():
                        self._readings.append(event)
                        self._on_event(CheckpointEvent(self.number, event))
                    case Rollout():
                        return event
        raise EngineDead("the engine ended a sample without a result: restart the service")

    def _pass(self, depth: int) -> None:
        self.passed = depth
        self._on_progress()


def gives_answer(policy: ExitPolicy, rollout: Rollout) -> bool:
    """Whether a sample gives an answer.

    It does after a high exit, after a low exit if the policy answers on low, and at a natural or
    budget end if c_end reaches the answer threshold λa.
    """
    if rollout.exit is ExitReason.HIGH:
        return True
    if rollout.exit is ExitReason.LOW:
        return policy.answer_on_low
    return answers_at_last(policy, rollout.readings)


def answers_at_last(policy: ExitPolicy, readings: Sequence[Reading]) -> bool:
    """Whether a sample that no exit has stopped gives an answer; the last reading is c_end."""
    *earlier, end = readings
    state = INITIAL_STATE
    for reading in earlier:
        state, _ = step(policy, state, reading.tokens, reading.confidence)
    return answers_at_end(policy, state, end.confidence)


def _settings_of_sample(generation: GenerationSettings, number: int) -> GenerationSettings:
    """With a seed, gives each sample its own, unrelated to the samples of other seeds."""
    if generation.seed is None:
        return generation
    digest = hashlib.sha256(f"{generation.seed} {number}".encode()).digest()
    return replace(generation, seed=int.from_bytes(digest[:4], "big") >> 1)
