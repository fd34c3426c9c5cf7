"""Sends questions to the real engine and collects the output of one sample."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from calibration import FULL_BUDGET, ExitPolicy
from rlcm_serve.core import (
    Budget,
    Completion,
    Delta,
    GenerationSettings,
    Message,
    Reading,
    Role,
    Rollout,
    TokenIds,
)
from rlcm_serve.engine.contract import Reasoner
from rlcm_serve.engine.prompts import FORCED_ANSWER


def user(text: str) -> list[Message]:
    return [Message(Role.USER, text)]


def generation(
    engine: Reasoner, budget: Budget | None = None, **settings: Any
) -> GenerationSettings:
    """The engine's default generation settings with these changes."""
    settings = {"sampling": engine.identity.sampling} | settings
    return GenerationSettings(budget=budget or engine.identity.budget, **settings)


async def forced_answers(
    engine: Reasoner,
    prompt: TokenIds,
    thinking: TokenIds,
    how: GenerationSettings,
    count: int = 1,
) -> tuple[Completion, ...]:
    r"""Answers forced after `thinking`; their texts begin inside `\boxed{`."""
    return await engine.continue_after(prompt, thinking, FORCED_ANSWER, how, count)


@dataclass
class Told:
    """Everything that the engine yields for one sample, by kind, each in order."""

    rollout: Rollout
    checkpoints: list[Reading] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    """Tokens that had arrived when each checkpoint was yielded."""

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def tokens(self) -> int:
        return sum(delta.tokens for delta in self.deltas)


async def think(
    engine: Reasoner,
    question: str | TokenIds,
    policy: ExitPolicy = FULL_BUDGET,
    how: GenerationSettings | None = None,
    *,
    thought: TokenIds = (),
    text: bool = False,
) -> Told:
    """Runs one sample to its end, from its beginning or from what it thought."""
    prompt = engine.prompt(user(question)) if isinstance(question, str) else question
    checkpoints, deltas, arrived = [], [], []
    async with aclosing(
        engine.think(prompt, policy, how or generation(engine), thought=thought, text=text)
    ) as events:
        async for event in events:
            match event:
                case Delta():
                    deltas.append(event)
                case Reading():
                    checkpoints.append(event)
                    arrived.append(sum(delta.tokens for delta in deltas))
                case Rollout():
                    return Told(event, checkpoints, deltas, arrived)
    raise AssertionError("no rollout came")
