"""Reads the confidence that a model states in its text (RLCR, arXiv 2507.16806)."""

from __future__ import annotations

import re

_NUMBER = (
    r"(?P<number>(?<![\d.])\d++(?:\.\d*+)?|(?<![\d.])\.\d++)\s*+"
    r"(?:(?P<percent>\\?%|percent\b)|(?:/|out\s++of)\s*+(?P<of>\d++))?+"
)
"""Each digit and blank is looked at once, however many there are."""
_TAG = re.compile(r"<confidence>(.*?)(?:</confidence>|<|\Z)", re.DOTALL | re.IGNORECASE)
_STATED = re.compile(
    r"\bconfidence\b(?:[ \t]+(?:level|score))?[ \t]*(?:\([^()\n]*\))?[ \t*_]*"
    rf"(?:is|of|:|=)[ \t*_]*{_NUMBER}",
    re.IGNORECASE,
)
_SURE = re.compile(
    rf"{_NUMBER}(?:(?<=\s)|\s++)(?:confident|confidence(?!\s+(?:interval|level|region|band))|sure|certain)\b",
    re.IGNORECASE,
)
_ANY = re.compile(_NUMBER, re.IGNORECASE)


def verbalized(text: str) -> float | None:
    """The last stated confidence, in [0, 1]; None if there is none or it cannot be read.

    The text between `<confidence>` and `</confidence>` has precedence and must hold one number.
    Otherwise, phrases such as `Confidence: 80%` or `90 % sure` count. A number above 1 without a
    scale (`80`) is a percentage.
    """
    if tags := _TAG.findall(text):
        numbers = list(_ANY.finditer(tags[-1]))
        return _value(numbers[0]) if len(numbers) == 1 else None
    stated = max((*_STATED.finditer(text), *_SURE.finditer(text)), key=re.Match.start, default=None)
    return None if stated is None else _value(stated)


def _value(found: re.Match[str]) -> float | None:
    number = float(found["number"])
    if found["of"]:
        value = number / float(found["of"]) if float(found["of"]) else float("nan")
    elif found["percent"] or number > 1:
        value = number / 100
    else:
        value = number
    return value if 0 <= value <= 1 else None
