"""One sample of a question, from its first token to its answer."""

from __future__ import annotations

import hashlib
from contextlib import aclosing
from dataclasses import replace

from calibration import INITIAL_STATE, ExitPolicy, ExitReason, answers_at_end, step
from rlcm_serve.answers.forcing import answer_rollout
from rlcm_serve.core import (
    CancelledSample,
    Delta,
    GenerationSettings,
    Reading,
    Rollout,
    Sample,
    TokenIds,
)
from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.errors import EngineDead
from rlcm_serve.events import CheckpointEvent, ExitEvent, OnEvent, TokenEvent


class SampleRun:
    """One sample on its way from the first token to its answer."""

    def __init__(
        self,
        engine: ReasoningEngine,
        number: int,
        prompt: TokenIds,
        policy: ExitPolicy,
        generation: GenerationSettings,
        on_event: OnEvent,
        text: bool,
    ) -> None:
        self.number = number
        self.thinking = True
        """Not yet answering, which takes a few tokens and is not cut short."""
        self._engine = engine
        self._prompt = prompt
        self._policy = policy
        self._generation = _of_sample(generation, number)
        self._on_event = on_event
        self._text = text
        self._tokens = 0
        self._checkpoints: list[Reading] = []

    async def run(self) -> Sample:
        """Thinks, and answers if the policy says so."""
        rollout = await self._think()
        self.thinking = False
        reasoning, confidence = len(rollout.tokens), rollout.confidence
        self._on_event(ExitEvent(self.number, rollout.exit, reasoning, confidence))
        if not gives_answer(self._policy, rollout):
            return Sample(rollout, answer=None, answer_tokens=rollout.answer_tokens)
        given = await answer_rollout(self._engine, self._prompt, rollout, self._generation)
        return Sample(rollout, given.answers[0], given.tokens, given.suffix_tokens)

    def cancelled(self) -> CancelledSample:
        """What became of it, if it was cancelled."""
        return CancelledSample(self._tokens, tuple(self._checkpoints))

    async def _think(self) -> Rollout:
        thinking = self._engine.think(self._prompt, self._policy, self._generation, text=self._text)
        async with aclosing(thinking):
            async for event in thinking:
                match event:
                    case Delta(tokens, text, is_answer):
                        self._tokens += tokens
                        if text:
                            self._on_event(TokenEvent(self.number, tokens, text, is_answer))
                    case Reading():
                        self._checkpoints.append(event)
                        self._on_event(CheckpointEvent(self.number, event))
                    case Rollout():
                        return event
        raise EngineDead("the engine ended a sample without its result; restart the service")


def gives_answer(policy: ExitPolicy, rollout: Rollout) -> bool:
    """Whether a sample is answered: after a high exit, a low one if told to, or if c_end >= λa."""
    if rollout.exit is ExitReason.HIGH:
        return True
    if rollout.exit is ExitReason.LOW:
        return policy.answer_on_low
    *checkpoints, end = rollout.readings
    state = INITIAL_STATE
    for checkpoint in checkpoints:
        state, _ = step(policy, state, checkpoint.tokens, checkpoint.confidence)
    return answers_at_end(policy, state, end.confidence)


def _of_sample(generation: GenerationSettings, number: int) -> GenerationSettings:
    """A seeded question's samples differ, and none is a sample of the next seed."""
    if generation.seed is None:
        return generation
    digest = hashlib.sha256(f"{generation.seed} {number}".encode()).digest()
    return replace(generation, seed=int.from_bytes(digest[:4], "big") >> 1)
