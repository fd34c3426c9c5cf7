"""Gets the answer of a rollout; serving and recording use the same rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rlcm_serve.answers.extraction import Extractor, extractor_of
from rlcm_serve.core import Completion, GenerationSettings, Rollout, TokenIds
from rlcm_serve.engine.contract import Reasoner


class ExtractedAnswers(NamedTuple):
    """The answers of one rollout, None where none can be read, and the cost of the first one.

    `text` is the whole text of the first answer: what the model wrote after its thinking, and if
    the answer was forced, the answer as the extractor reads it. It is None without an answer.
    `tokens` were generated; `suffix_tokens` were inserted to force the answer, if it was `forced`.
    `is_cut` says that there is no answer because the limit of its tokens cut it off.
    """

    answers: tuple[str | None, ...]
    text: str | None
    tokens: int
    suffix_tokens: int
    is_cut: bool = False
    forced: bool = False


async def answer_rollout(
    engine: Reasoner,
    prompt: TokenIds,
    rollout: Rollout,
    generation: GenerationSettings,
    count: int = 1,
) -> ExtractedAnswers:
    """The model's own answer if it wrote one; else `count` forced answers (RLCM App. A).

    The engine's profile says how they are found. If the token limit cut off the model's own text,
    only an answer that had ended before counts. With a schema in `generation` answers are always
    forced, in texts that follow the schema: the model's own text need not follow it.

    Raises:
        EngineDead: the engine has died.
    """
    profile = engine.identity.profile
    extractor = extractor_of(profile, generation.schema)
    written = (rollout.answer_text or "").strip() if generation.schema is None else ""
    own = await _in_time(extractor, partial(read_own, extractor, generation, rollout))
    if own is not None:
        return ExtractedAnswers((own,), written, rollout.answer_tokens, 0)
    opening = opening_of(extractor, generation)
    forced = await engine.continue_after(prompt, rollout.tokens, opening, generation, count)
    read = partial(read_forced, extractor, generation)
    answers = tuple([await _in_time(extractor, partial(read, one)) for one in forced])
    text = None if answers[0] is None else forced[0].text.strip()
    if answers[0] is not None and generation.schema is None:
        text = "\n\n".join(filter(None, (written, extractor.shown(forced[0].text, answers[0]))))
    tokens = rollout.answer_tokens + forced[0].tokens
    is_cut = answers[0] is None and not forced[0].complete
    return ExtractedAnswers(answers, text, tokens, forced[0].suffix_tokens, is_cut, forced=True)


def opening_of(extractor: Extractor, generation: GenerationSettings) -> str:
    """The text that a forced answer continues; empty for one that follows a schema."""
    return extractor.opening if generation.schema is None else ""


def read_own(extractor: Extractor, generation: GenerationSettings, rollout: Rollout) -> str | None:
    """The answer in the model's own text; None if there is none, or it may have been cut off."""
    written = rollout.answer_text or ""
    if generation.schema is not None or not written.strip():
        return None
    if not rollout.answer_complete:
        return extractor.find_cut(written)  # with the blanks at its end, which may end a line
    return extractor.find(written.strip())


def read_forced(
    extractor: Extractor, generation: GenerationSettings, forced: Completion
) -> str | None:
    """The answer in a continuation of `opening_of`; None if it was cut off."""
    if generation.schema is None:
        return extractor.close(forced.text, forced.complete)
    return extractor.find(forced.text) if forced.complete else None


async def _in_time(extractor: Extractor, read: Callable[[], str | None]) -> str | None:
    """What is read with an extractor; a slow one reads in a thread."""
    return await asyncio.to_thread(read) if extractor.is_slow else read()
