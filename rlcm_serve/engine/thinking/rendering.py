"""What a chat template makes of small conversations, under one set of variables."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Turn = dict[str, Any]
Render = Callable[[Sequence[Turn], Mapping[str, Any], bool], str | None]
"""Renders turns under variables, with or without the generation prompt; None if the template does
not accept them."""


class Prompt(NamedTuple):
    """A rendered prompt: the text before the question and the text after it."""

    head: str
    tail: str


@dataclass(frozen=True)
class Rendering:
    """The chat template with a profile's variables and system prompt.

    Attributes:
        render: the chat template.
        variables: of the chat template.
        system: the system prompt; None leaves it out.
    """

    render: Render
    variables: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None

    def prompt(self, *, system: str | None = None, **variables: Any) -> Prompt | None:
        """The generation prompt of a question, without the text of the question and the system."""
        question = _word()
        turns = self._begin(question, system)
        text = self.render(turns, {**self.variables, **variables}, True)
        if text is None or question not in text:
            return None
        head, _, tail = text.rpartition(question)
        return Prompt(head.replace(self.system, "") if self.system else head, tail)

    def answered(self, reasoning: bool) -> tuple[str, bool] | None:
        """What a turn with an answer becomes, and whether its reasoning is in it."""
        question, answer, thought = _word(), _word(), _word()
        turn: Turn = {"role": "assistant", "content": answer}
        if reasoning:
            turn |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), thought)
        text = self.render([*self._begin(question), turn], self.variables, False)
        if text is None or question not in text or answer not in text:
            return None
        return text.rpartition(question)[2], thought in text

    def strips(self, start: str, end: str) -> bool:
        """Whether the template takes thinking out of an earlier answer."""
        question, answer, thought = _word(), _word(), _word()
        turns = self._begin(question)
        turns.append({"role": "assistant", "content": f"{start}{thought}{end}{answer}"})
        turns.append({"role": "user", "content": question})
        text = self.render(turns, self.variables, True)
        return text is not None and answer in text and thought not in text

    def _begin(self, question: str, system: str | None = None) -> list[Turn]:
        content = system if system is not None else self.system
        before = [] if content is None else [{"role": "system", "content": content}]
        return [*before, {"role": "user", "content": question}]


def _word() -> str:
    """A word that no template contains."""
    return secrets.token_hex(8)
