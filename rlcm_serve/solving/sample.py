"""One sample of a question, from its first token to its answer."""

from __future__ import annotations

import hashlib
from contextlib import aclosing
from dataclasses import replace

from calibration import INITIAL_STATE, ExitPolicy, ExitReason, answers_at_end, step
from rlcm_serve.answers.forcing import answer_thought
from rlcm_serve.core import (
    CancelledSample,
    Checkpoint,
    Delta,
    Drawing,
    Sample,
    Thought,
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
        drawing: Drawing,
        on_event: OnEvent,
        text: bool,
    ) -> None:
        self.number = number
        self.thinking = True
        """Not yet answering, which takes a few tokens and is not cut short."""
        self._engine = engine
        self._prompt = prompt
        self._policy = policy
        self._drawing = _of_sample(drawing, number)
        self._on_event = on_event
        self._text = text
        self._tokens = 0
        self._checkpoints: list[Checkpoint] = []

    async def run(self) -> Sample:
        """Thinks, and answers if the policy says so."""
        thought = await self._think()
        self.thinking = False
        reasoning, confidence = len(thought.tokens), thought.confidence
        self._on_event(ExitEvent(self.number, thought.exit, reasoning, confidence))
        if not gives_answer(self._policy, thought):
            return Sample(thought, answer=None, answer_tokens=thought.answer_tokens)
        given = await answer_thought(self._engine, self._prompt, thought, self._drawing)
        return Sample(thought, given.answers[0], given.tokens, given.suffix_tokens)

    def cancelled(self) -> CancelledSample:
        """What became of it, if it was cancelled."""
        return CancelledSample(self._tokens, tuple(self._checkpoints))

    async def _think(self) -> Thought:
        thinking = self._engine.think(self._prompt, self._policy, self._drawing, text=self._text)
        async with aclosing(thinking):
            async for event in thinking:
                match event:
                    case Delta(tokens, text, is_answer):
                        self._tokens += tokens
                        if text:
                            self._on_event(TokenEvent(self.number, tokens, text, is_answer))
                    case Checkpoint():
                        self._checkpoints.append(event)
                        self._on_event(CheckpointEvent(self.number, event))
                    case Thought():
                        return event
        raise EngineDead("the engine ended a sample without its result; restart the service")


def gives_answer(policy: ExitPolicy, thought: Thought) -> bool:
    """Whether a sample is answered: after a high exit, a low one if told to, or if c_end >= λa."""
    if thought.exit is ExitReason.HIGH:
        return True
    if thought.exit is ExitReason.LOW:
        return policy.answer_on_low
    *checkpoints, end = thought.checkpoints
    state = INITIAL_STATE
    for checkpoint in checkpoints:
        state, _ = step(policy, state, checkpoint.tokens, checkpoint.confidence)
    return answers_at_end(policy, state, end.confidence)


def _of_sample(drawing: Drawing, number: int) -> Drawing:
    """A seeded question's samples differ, and none is a sample of the next seed."""
    if drawing.seed is None:
        return drawing
    digest = hashlib.sha256(f"{drawing.seed} {number}".encode()).digest()
    return replace(drawing, seed=int.from_bytes(digest[:4], "big") >> 1)
