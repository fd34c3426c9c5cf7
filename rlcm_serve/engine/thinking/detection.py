"""Finds the thinking format of a model from its rendered prompts and its vocabulary.

The text of a chat template proves nothing: it may mention `</think>` only to take thinking out of
earlier answers, and models that do not think share the vocabulary of those that do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from rlcm_serve.engine.thinking.base import NONE, Place, ThinkingFormat, ids_of
from rlcm_serve.engine.thinking.registry import available_formats, format_named
from rlcm_serve.engine.thinking.rendering import Prompt, Rendering
from rlcm_serve.errors import ModelRefused

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_OFF: tuple[dict[str, Any], ...] = (
    {"enable_thinking": False},
    {"thinking": False},
    {"thinking_budget": 0},
    {"system": "/no_think"},
)
_ON: tuple[dict[str, Any], ...] = ({"enable_thinking": True}, {"thinking": True})
"""Variables with which templates turn thinking off and on, and Nemotron's system prompt."""


class _Verdict(Enum):
    """What the rendered prompts say of one format."""

    ON = "the model thinks in it"
    OFF = "it is turned off"
    UNSURE = "the template knows it, but does not say whether the model thinks"
    ABSENT = "the template does not know it"


def find_format(
    rendering: Rendering, tokenizer: PreTrainedTokenizerBase, name: str | None = None
) -> ThinkingFormat:
    """The format with this name or, for None, the one that the rendered prompts show.

    Raises:
        ModelRefused: the rendered prompts do not tell, or the named format does not fit the model.
    """
    evidence = _Evidence(rendering, tokenizer)
    return evidence.require(format_named(name)) if name else evidence.find()


class _Evidence:
    """What the rendered prompts of one model show."""

    def __init__(self, rendering: Rendering, tokenizer: PreTrainedTokenizerBase) -> None:
        self._rendering, self._tokenizer = rendering, tokenizer
        self._prompt = rendering.prompt() or Prompt("", "")
        self._off = [found for found in self._switched(_OFF) if found]
        self._on = [found for found in self._switched(_ON) if found]
        self._plain = rendering.answered(reasoning=False)
        self._reasoned = rendering.answered(reasoning=True)

    def _switched(self, switches: Iterable[dict[str, Any]]) -> Iterator[Prompt | None]:
        for switch in switches:
            yield self._rendering.prompt(**switch)

    def require(self, named: ThinkingFormat) -> ThinkingFormat:
        """The named format, if the vocabulary has it and the prompt does not close it."""
        missing = [token for token in named.tokens if token not in self._ids(named.tokens)]
        if missing:
            raise ModelRefused(
                f"the thinking format is {named.name}, but the model's tokenizer has no token "
                f"{missing[0]!r}: give `--thinking none`, or a format whose tokens it has"
            )
        if named is not NONE and self._place(named, self._prompt) is Place.ANSWER:
            raise ModelRefused(
                f"the thinking format is {named.name}, but the chat template ends the prompt with "
                f"{self._prompt.tail[-40:]!r}, so thinking is turned off: set the template's "
                "variable that turns it on (such as enable_thinking), or give `--thinking none`"
            )
        return named

    def find(self) -> ThinkingFormat:
        """The only format in which the model thinks, or `none`."""
        known = [one for one in available_formats().values() if one.start]
        fitting = [one for one in known if len(self._ids(one.tokens)) == len(one.tokens)]
        verdicts = {one: self._verdict(one) for one in fitting}
        thinks = [one for one in fitting if verdicts[one] is _Verdict.ON]
        unsure = [one for one in fitting if verdicts[one] is _Verdict.UNSURE]
        if len(thinks) == 1:
            return thinks[0]
        if thinks:
            self._refuse("the chat template writes the tokens of several formats", thinks)
        if unsure:
            self._refuse(
                "the chat template handles thinking in earlier answers, but its prompt does not "
                "say whether the model thinks",
                unsure,
            )
        for one in known:
            if one not in verdicts and any(one.start in text for text in self._written()):
                self._refuse(
                    f"the chat template writes {one.start!r}, but the tokenizer does not have all "
                    f"tokens of {one.name} ({', '.join(one.tokens)})",
                    (),
                )
        is_off = _Verdict.OFF in verdicts.values()
        if not is_off and self._reasoned is not None and self._reasoned[1]:
            self._refuse("the chat template writes thinking in a form that is not known", ())
        return NONE

    def _verdict(self, one: ThinkingFormat) -> _Verdict:
        place = self._place(one, self._prompt)
        if place is Place.THINKING or self._is_instructed(one, self._prompt):
            return _Verdict.ON
        if place is Place.ANSWER:
            return _Verdict.OFF
        # The prompt opens nothing. What would turn thinking off or on says what that means.
        is_on = any(self._place(one, prompt) is not None for prompt in self._off)
        is_off = any(
            self._place(one, prompt) is Place.THINKING or self._is_instructed(one, prompt)
            for prompt in self._on
        )
        if is_on and is_off:
            return _Verdict.UNSURE
        if is_on or is_off:
            return _Verdict.ON if is_on else _Verdict.OFF
        if self._plain is not None and one.start in self._plain[0]:
            return _Verdict.ON
        knows = self._reasoned is not None and one.start in self._reasoned[0]
        is_unsure = knows or self._rendering.strips(one.start, one.end)
        return _Verdict.UNSURE if is_unsure else _Verdict.ABSENT

    def _place(self, one: ThinkingFormat, prompt: Prompt) -> Place | None:
        """Whether the prompt opens thinking or an answer; None if it opens neither."""
        reader = one.reader(self._tokenizer)
        reader.read(self._tokenizer.encode(prompt.tail, add_special_tokens=False))
        return reader.place if reader.is_open else None

    def _is_instructed(self, one: ThinkingFormat, prompt: Prompt) -> bool:
        ids = self._ids((one.start, *one.instructions)).values()
        head = self._tokenizer.encode(prompt.head, add_special_tokens=False)
        return not set(ids).isdisjoint(head)

    def _ids(self, tokens: Iterable[str]) -> dict[str, int]:
        return ids_of(self._tokenizer, tokens)

    def _written(self) -> Iterator[str]:
        """What the template writes behind a question."""
        yield from (prompt.tail for prompt in (self._prompt, *self._off, *self._on))
        yield from (found[0] for found in (self._plain, self._reasoned) if found)

    def _refuse(self, why: str, formats: Iterable[ThinkingFormat]) -> NoReturn:
        names = [*(one.name for one in formats), NONE.name]
        raise ModelRefused(
            f"the model's thinking format cannot be told: {why}. Name it with `--thinking FORMAT`, "
            "or as `thinking` in the settings, in the model's generation_config.json or, for one "
            f"profile alone, in the profile: {' or '.join(names)}"
        )
