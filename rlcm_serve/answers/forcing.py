"""Gets the answer of a rollout; serving and recording use the same rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from rlcm_serve.answers.extraction import BOXED, Extractor
from rlcm_serve.core import GenerationSettings, Rollout, TokenIds
from rlcm_serve.engine.contract import Reasoner


class ExtractedAnswers(NamedTuple):
    """The answers of one rollout, None where none can be read, and the cost of the first one.

    `text` is the whole text of the first answer: what the model wrote after its thinking, and if
    the answer was forced, the answer as the extractor reads it. It is None without an answer.
    `tokens` were generated; `suffix_tokens` were inserted to force the answer.
    """

    answers: tuple[str | None, ...]
    text: str | None
    tokens: int
    suffix_tokens: int


async def answer_rollout(
    engine: Reasoner,
    prompt: TokenIds,
    rollout: Rollout,
    generation: GenerationSettings,
    count: int = 1,
    extractor: Extractor = BOXED,
) -> ExtractedAnswers:
    """The model's own answer if it wrote one; else `count` forced answers (RLCM App. A).

    Raises:
        EngineDead: the engine has died.
    """
    written = (rollout.answer_text or "").strip()
    own = await _in_time(extractor, extractor.find, written)
    if own is not None:
        return ExtractedAnswers((own,), written, rollout.answer_tokens, 0)
    forced = await engine.continue_after(
        prompt, rollout.tokens, extractor.opening, generation, count
    )
    answers = tuple(
        [await _in_time(extractor, extractor.close, one.text, one.complete) for one in forced]
    )
    first, text = answers[0], None
    if first is not None:
        text = "\n\n".join(filter(None, (written, extractor.shown(forced[0].text, first))))
    tokens = rollout.answer_tokens + forced[0].tokens
    return ExtractedAnswers(answers, text, tokens, forced[0].suffix_tokens)


async def _in_time(
    extractor: Extractor, read: Callable[..., str | None], *arguments: object
) -> str | None:
    """What an extractor reads; a slow one reads in a thread."""
    if extractor.is_slow:
        return await asyncio.to_thread(read, *arguments)
    return read(*arguments)
