"""Gets the answer of a rollout; serving and recording use the same rule."""

from __future__ import annotations

from typing import NamedTuple

from rlcm_serve.answers.grader import close_boxed, own_answer
from rlcm_serve.core import GenerationSettings, Rollout, TokenIds
from rlcm_serve.engine.contract import ReasoningEngine


class ExtractedAnswers(NamedTuple):
    """The answers of one rollout, None where none can be read, and the cost of the first one.

    `tokens` were generated; `suffix_tokens` were inserted to force the answer.
    """

    answers: tuple[str | None, ...]
    tokens: int
    suffix_tokens: int


async def answer_rollout(
    engine: ReasoningEngine,
    prompt: TokenIds,
    rollout: Rollout,
    generation: GenerationSettings,
    count: int = 1,
) -> ExtractedAnswers:
    """The model's own answer if it wrote one; else `count` forced answers (RLCM App. A).

    Raises:
        EngineDead: the engine has died.
    """
    own = own_answer(rollout.answer_text or "")
    if own is not None:
        return ExtractedAnswers((own,), rollout.answer_tokens, 0)
    forced = await engine.force_answers(prompt, rollout.tokens, generation, count)
    answers = tuple(close_boxed(completion.text) for completion in forced)
    return ExtractedAnswers(answers, rollout.answer_tokens + forced[0].tokens, engine.suffix_tokens)
