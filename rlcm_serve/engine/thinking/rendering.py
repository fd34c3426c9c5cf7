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
        around: what a user's message has before and after the question. Some templates read in it
            whether to think.
    """

    render: Render
    variables: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    around: tuple[str, str] = ("", "")

    def prompt(self, *, system: str | None = None, **variables: Any) -> Prompt | None:
        """The generation prompt of a question, without the texts of the system and the user."""
        question = _word()
        turns = self._begin(question, system)
        text = self.render(turns, {**self.variables, **variables}, True)
        if text is None or question not in text:
            return None
        head, tail = self._parts(text, question)
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
        return self._parts(text, question)[1], thought in text

    def strips(self, start: str, end: str) -> bool:
        """Whether the template takes thinking out of an earlier answer."""
        question, answer, thought = _word(), _word(), _word()
        turns = self._begin(question)
        turns.append({"role": "assistant", "content": f"{start}{thought}{end}{answer}"})
        turns.append({"role": "user", "content": question})
        text = self.render(turns, self.variables, True)
        return text is not None and answer in text and thought not in text

    def _parts(self, text: str, question: str) -> tuple[str, str]:
        """What the template writes before and after the user's message."""
        head, _, tail = text.rpartition(question)
        before, after = self.around
        if not tail.startswith(after):
            after = after.rstrip()  # some templates trim messages
        if not head.endswith(before):
            before = before.lstrip()
        return head.removesuffix(before), tail.removeprefix(after)

    def _begin(self, question: str, system: str | None = None) -> list[Turn]:
        content = system if system is not None else self.system
        before = [] if content is None else [{"role": "system", "content": content}]
        begin, end = self.around
        return [*before, {"role": "user", "content": f"{begin}{question}{end}"}]


def _word() -> str:
    """A word that no template contains."""
    return secrets.token_hex(8)
