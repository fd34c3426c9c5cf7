"""Compares plain answers without math-verify: plain numbers, single letters and words.

Every verdict is the same as math-verify's; a test compares the two on many pairs, and on all pairs
of letters. An answer for which that is not easy to ensure does not count as plain.
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
# `e` and `i` may be numbers, and words of two or three letters may be functions (`sin`).
_NAME = re.compile(r"[A-Za-z]{4,}|[A-DF-HJ-Za-df-hj-z]")


class Kind(IntEnum):
    """The kind of a plain answer."""

    INTEGER = 0
    DECIMAL = 1
    NAME = 2


class Plain(NamedTuple):
    """A plain answer; answers with the same `key` are equal."""

    kind: Kind
    key: str


def tidy(answer: str) -> str:
    """The answer without final punctuation, because math-verify cannot read `7.`."""
    return answer.strip().rstrip(".,;").rstrip() or answer


@lru_cache(maxsize=2**16)
def plain(answer: str) -> Plain | None:
    """The plain answer in a tidied text; None if the text is not plain."""
    if _INTEGER.fullmatch(answer):
        return Plain(Kind.INTEGER, str(int(answer)))
    if found := _DECIMAL.fullmatch(answer):
        return Plain(Kind.DECIMAL, _shortest(*found.groups()))
    if _NAME.fullmatch(answer):
        # math-verify reads a word as the product of its letters, in which their order is free.
        return Plain(Kind.NAME, answer.casefold())
    return None


def decided(one: Plain, other: Plain) -> bool:
    """Whether two different keys mean two different answers.

    Not for a decimal and a name: `54.59815` equals `eeee`, which is read as e to the power of 4.
    """
    return {one.kind, other.kind} != {Kind.DECIMAL, Kind.NAME}


@dataclass(frozen=True, slots=True)
class Text:
    """An answer as far as it can be read without math-verify.

    Attributes:
        form: the tidied text. `3` and `3.0` are equal, but only `3.0` also equals `2.9999999`, so
            every form is compared separately.
        key: answers with the same key are equal.
        plain: the plain answer; None if the text is not plain.
    """

    form: str
    key: str
    plain: Plain | None

    @classmethod
    def read(cls, answer: str) -> Text:
        """Reads `answer`."""
        form = tidy(answer)
        found = plain(form)
        return cls(form, found.key if found else form, found)


def open_pairs(texts: Iterable[Text]) -> Iterator[tuple[Text, Text]]:
    """The pairs of forms that only math-verify can compare.

    Decided pairs cost no time, however many there are.
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


def equal_if_plain(answer: str, other: str) -> bool | None:
    """Whether two answers are equal; None if only math-verify can tell."""
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
    """The shortest text of a decimal; a whole number is written as an integer."""
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return f"-{number}" if sign == "-" and number != "0" else number
