"""Numbers as they are written: decimals, repeating decimals, powers of ten, bases."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from rlcm_serve.answers.canonical.expressions.nodes import simplest
from rlcm_serve.answers.canonical.text.tokens import Unreadable

_LONGEST_NUMBER = 1000
_LARGEST_EXPONENT = 1000


def number(kind: str, text: str) -> int | Fraction:
    """The exact value of a token that is a number.

    Raises:
        Unreadable: it is too long.
    """
    if len(text) > _LONGEST_NUMBER:
        raise Unreadable("a number that is too long")
    if kind == "number":
        return decimal(text)
    return _READ[kind](text)


def decimal(text: str) -> int | Fraction:
    """The exact value of digits with an optional point."""
    whole, point, places = text.partition(".")
    if not point or not places.strip("0"):
        return int(whole or "0")
    return simplest(Fraction(int(whole + places), 10 ** len(places)))


def in_base(digits: str, base: int) -> int:
    """The value of digits in a base from 2 to 36.

    Raises:
        Unreadable: the base has no such digits.
    """
    try:
        return int(digits, base)
    except ValueError:
        raise Unreadable(f"{digits} in base {base}") from None


def _scientific(text: str) -> int | Fraction:
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > 5 or abs(int(exponent)) > _LARGEST_EXPONENT:
        raise Unreadable("an exponent that is too large")
    return simplest(Fraction(decimal(mantissa)) * Fraction(10) ** int(exponent))


def _prefixed(text: str) -> int:
    return int(text, 0)


def _repeating(text: str) -> int | Fraction:
    r"""`0.1\overline{6}`, `0.1(6)`, `0.\dot{1}2\dot{3}` or `0.333...`."""
    whole, _, rest = text.partition(".")
    lead = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    tail = rest[len(lead) :]
    cycle = "".join(re.findall(r"\d", tail))
    if not cycle:
        lead, cycle = _cycle(lead)
    if not cycle:
        return decimal(f"{whole}.{lead}")
    value = Fraction(int(whole + lead or "0"), 10 ** len(lead))
    return simplest(value + Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(lead)))


def _cycle(places: str) -> tuple[str, str]:
    """The places before a repeated ending, and the ending; empty if nothing is repeated."""
    for length in range(1, min(len(places) // 2, 20) + 1):
        cycle = places[-length:]
        whole = places in (2 * cycle, 3 * cycle)
        times = 2 if whole or 2 * length >= 6 else 3
        if places.endswith(cycle * times):
            lead = places[: -length * times]
            while lead.endswith(cycle):
                lead = lead[:-length]
            return lead, cycle
    return places, ""


_READ: dict[str, Callable[[str], int | Fraction]] = {
    "scientific": _scientific,
    "prefixed": _prefixed,
    "repeating": _repeating,
}
