"""What words behind a number say beside its unit: a direction, `from Town A`, a condition."""

from __future__ import annotations

import re

_NOTHING_COUNTED = """
factorial minus plus not incorrect wrong rejected extraneous rounded raised basis modulo mod or and
but if iff when whenever unless otherwise else provided providing assuming given except because
since until depending least most binary ternary octal hexadecimal base doubled tripled halved power
"""
NO_THINGS = frozenset(_NOTHING_COUNTED.split())
"""Words that say more of a number than what it counts."""
CONDITION = re.compile(
    r"\b(?i:if|iff|when|whenever|unless|otherwise|provided|assuming|except)\b|"
    r"\bfor\b.*\b(?:(?i:odd|even|prime|nonzero|negative|positive|large|small)|[b-z])\b|"
    r"\bof\s+[b-z]\b|\bto\s+the\s+(?:power|third|fo?ur|fif|six|seven|eigh|nin|ten)",
    re.DOTALL,
)
"""A condition that stands behind a preposition, too."""
_FOR_ALL = re.compile(
    r"\bfor\s+(?:all|any|every|each)(?:\s+(?:real|constants?|numbers?|values?|of|(?:positive\s+)?"
    r"integers?|[a-z]))*\s*$"
)
"""No condition: what it says of a letter is meant without it."""
_SIDES = """
across: left leftward leftwards; right rightward rightwards
upright: up upward upwards above; down downward downwards below
compass: north northward northwards; south southward southwards; east eastward eastwards
compass: west westward westwards
sign: positive; negative
count: more; fewer less
age: older; younger
turn: clockwise; counterclockwise anticlockwise
"""
SIDE_OF = {
    word: (axis, words.split()[0])
    for axis, _, sides in (line.partition(": ") for line in _SIDES.strip().splitlines())
    for words in sides.split("; ")
    for word in words.split()
}
"""Axis and side of the words behind a quantity that tell it from one on the other side."""
_BEHIND = re.compile(
    r"(?<=\S)\s+(in|for|from|on|at|to|with|than|that|which|of)\s+(.+)|^(of|from|than)\s+(.+)"
)
_BRACKET = re.compile(r"[(){}]")
_ARTICLE = re.compile(r"\b(?:an?|the)\s+")
_IN_ALL = re.compile(r"\bin\s+(?:all|total)\b")


def without_vacuous(text: str) -> str:
    """The words without those that say nothing, such as `in all` and `for all real x`."""
    return _FOR_ALL.sub("", _IN_ALL.sub(" ", text))


def sides(text: str) -> dict[str, str]:
    """What the words behind a number say beside its unit, as in `m/s to the left` or `km from A`.

    By an axis, such as `across`, or by the preposition before it.
    """
    text = without_vacuous(_BRACKET.sub(" ", text.lower()))
    words = [SIDE_OF[word] for word in re.findall("[a-z]+", text) if word in SIDE_OF]
    found = {axis: " ".join(own for of, own in words if of == axis) for axis, _ in words}
    if behind := _BEHIND.search(text):
        preposition, rest = (each for each in behind.groups() if each)
        said = [word for word in _ARTICLE.sub("", rest).split() if word not in SIDE_OF]
        found |= {preposition: " ".join(said)} if said else {}
    return found
