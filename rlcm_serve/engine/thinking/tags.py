"""Formats that put thinking between two special tokens, such as `<think>` and `</think>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlcm_serve.engine.thinking.base import Part, Place, Reader, ThinkingFormat, ids_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class _TagReader(Reader):
    """Finds the two tokens; the chat template or the model writes the first one.

    A `label` is text behind the first token that names the block and is no thinking.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, start: int, end: int, label: str):
        self._tokenizer = tokenizer
        self._start, self._end, self._label = start, end, label
        self._labelled: list[int] | None = None
        self.markup = frozenset((start, end))

    @property
    def is_settled(self) -> bool:
        """Not while a label may follow."""
        return self._labelled is None

    def push(self, token: int) -> Part:
        """Only the first opening token is markup, and only while the thinking is not closed."""
        if self.place is Place.ANSWER:
            return Part.ANSWER
        if token == self._end:
            self.place = Place.ANSWER
            return Part.MARKUP
        if self.place is Place.START and token == self._start:
            self.place = Place.THINKING
            self._labelled = [] if self._label else None
            return Part.MARKUP
        return Part.MARKUP if self._is_label(token) else Part.THINKING

    def _is_label(self, token: int) -> bool:
        if self._labelled is None:
            return False
        self._labelled.append(token)
        text = self._tokenizer.decode(self._labelled)
        if text == self._label or not self._label.startswith(text):
            self._labelled = None
        return self._label.startswith(text)


@dataclass(frozen=True)
class TagFormat(ThinkingFormat):
    """Thinking between two special tokens.

    Attributes:
        name: as in `ThinkingFormat`.
        start: opens the thinking.
        end: closes the thinking.
        label: text behind `start` that is no thinking.
        before_answer: token that the model writes after `end`, before its answer.
        instructions: as in `ThinkingFormat`.
    """

    name: str
    start: str
    end: str
    label: str = ""
    before_answer: str = ""
    instructions: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[str, ...]:  # type: ignore[override]
        """Both tokens, and what stands before the answer."""
        return tuple(filter(None, (self.start, self.end, self.before_answer)))

    @property
    def closing(self) -> str:
        """The closing token on a line of its own (RLCM App. A)."""
        return f"\n{self.end}{self.before_answer}"

    @property
    def answer_header(self) -> str:
        """The token before the answer, in formats that have one."""
        return self.before_answer

    def reader(self, tokenizer: PreTrainedTokenizerBase) -> Reader:
        """A reader that looks for the two tokens."""
        ids = ids_of(tokenizer, (self.start, self.end))
        return _TagReader(tokenizer, ids[self.start], ids[self.end], self.label)

    def lead(self, place: Place, *, is_empty: bool) -> str:
        """Closes the thinking if it is open, and writes an empty block if nothing was sampled."""
        if place is Place.THINKING:
            return self.closing
        if place is Place.START and is_empty:
            return f"{self.start}{self.label}\n{self.closing}"
        return ""
