"""What reads parts of an answer, for the modules that read one kind of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.text.tokens import Token

Span = tuple[int, int]
"""A range of tokens."""


class Reader(Protocol):
    """Reads ranges of tokens; `structure.AnswerReader` does.

    Attributes:
        tokens: all tokens.
        partner: the index of the closing bracket for that of each opening one.
    """

    tokens: list[Token]
    partner: dict[int, int]

    def read(self, at: int, end: int) -> Part:
        """A list, or one item."""
        ...

    def item(self, at: int, end: int) -> Part:
        """One member of a list."""
        ...

    def expression(self, at: int, end: int) -> Node:
        """An expression."""
        ...

    def separators(self, at: int, end: int) -> list[tuple[int, str]]:
        """Where a list is divided, and by what, outside of brackets."""
        ...

    def marks(self, at: int, end: int, marks: Collection[str]) -> list[int]:
        """Where one of the marks is, outside of brackets."""
        ...


def between(at: int, end: int, marks: list[int]) -> list[Span]:
    """The ranges between the marks, without empty ones."""
    starts, ends = [at, *(mark + 1 for mark in marks)], [*marks, end]
    return [(low, high) for low, high in zip(starts, ends, strict=True) if low < high]
