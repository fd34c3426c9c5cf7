"""Answers whose equality can be seen without mathematics: plain numbers, single letters and words.

What is decided here is decided as math-verify would; a test holds the two to that on many pairs,
and on all pairs of letters. Where that cannot be had cheaply, an answer is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
# math-verify rounds decimals to six places, and keeps fifteen digits.
_DECIMAL = re.compile(r"([+-]?)([0-9]{0,9})\.([0-9]{1,6})")
# `e` and `i` may be numbers, and words of two or three letters products in disguise (`sin`).
_NAME = re.compile(r"[A-Za-z]{4,}|[A-DF-HJ-Za-df-hj-z]")


class Kind(IntEnum):
    """What sort of plain answer a text is."""

    INTEGER = 0
    DECIMAL = 1
    NAME = 2


class Plain(NamedTuple):
    """A plain answer: answers with the same `key` are equal."""

    kind: Kind
    key: str


def tidy(answer: str) -> str:
    """The answer without the punctuation that ended its sentence: math-verify cannot read `7.`."""
    return answer.strip().rstrip(".,;").rstrip() or answer


@lru_cache(maxsize=2**16)
def plain(answer: str) -> Plain | None:
    """What a tidied answer says, if that is plain."""
    if _INTEGER.fullmatch(answer):
        return Plain(Kind.INTEGER, str(int(answer)))
    if found := _DECIMAL.fullmatch(answer):
        return Plain(Kind.DECIMAL, _shortest(*found.groups()))
    if _NAME.fullmatch(answer):
        # math-verify reads a word as the product of its letters, in which their order is free.
        return Plain(Kind.NAME, answer.casefold())
    return None


def decided(one: Plain, other: Plain) -> bool:
    """Whether unequal keys of the two mean unequal answers.

    Not for a decimal and a name: `54.59815` equals `eeee`, which is e to the power of four.
    """
    return {one.kind, other.kind} != {Kind.DECIMAL, Kind.NAME}


@dataclass(frozen=True, slots=True)
class Text:
    """What can be seen of an answer.

    Attributes:
        form: the tidied text. `3` and `3.0` are equal, but only `3.0` also equals `2.9999999`, so
            that each form is compared for itself.
        key: answers with the same are equal.
        plain: what it says, if that is plain.
    """

    form: str
    key: str
    plain: Plain | None

    @classmethod
    def read(cls, answer: str) -> Text:
        """What can be seen of `answer`."""
        form = tidy(answer)
        seen = plain(form)
        return cls(form, seen.key if seen else form, seen)


def open_pairs(texts: Iterable[Text]) -> Iterator[tuple[Text, Text]]:
    """The pairs of forms that only mathematics can tell to be equal or not.

    Takes no time over the pairs that are decided, however many there are.
    """
    forms = {text.form: text for text in texts}.values()
    hard = [text for text in forms if text.plain is None]
    decimals, names, integers = (
        [text for text in forms if text.plain and text.plain.kind is kind]
        for kind in (Kind.DECIMAL, Kind.NAME, Kind.INTEGER)
    )
    for at, text in enumerate(hard):
        yield from ((text, other) for other in chain(hard[at + 1 :], decimals, names, integers))
    yield from product(decimals, names)


def equal_at_sight(answer: str, other: str) -> bool | None:
    """Whether two answers are equal, where that takes no mathematics; None where it does."""
    answer, other = tidy(answer), tidy(other)
    if answer == other:
        return True
    one, two = plain(answer), plain(other)
    if one is None or two is None:
        return None
    if one.key == two.key:
        return True
    return False if decided(one, two) else None


def _shortest(sign: str, whole: str, fraction: str) -> str:
    """A decimal's value in as few characters as it takes; that of a whole number as an integer."""
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return f"-{number}" if sign == "-" and number != "0" else number
