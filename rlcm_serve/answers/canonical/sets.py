"""Sets: members in braces, conditions, unions, intersections and differences."""

from __future__ import annotations

import re
from dataclasses import replace

from rlcm_serve.answers.canonical import intervals, part
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.names import name_of
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.reader import Reader, Span, between
from rlcm_serve.answers.canonical.text.tokens import Unreadable
from rlcm_serve.answers.canonical.text.word_keys import text_key
from rlcm_serve.answers.canonical.text.words import only_words

_SET = "set "
_NUMBER_SET = re.compile(r"[RZNQC](?:[\^_][+*])?")
_POSITIVE = re.compile(r"[\^_][+*]$")


def read_set(reader: Reader, at: int, end: int) -> Part:
    """The content of braces: members, or names with a condition.

    Raises:
        Unreadable: it is neither.
        Undefined: a member has no value.
    """
    if at == end:
        return part.real_set(())
    if len(bars := reader.marks(at, end, ("\\mid", "|", ":"))) == 1:
        return _with_condition(reader, (at, bars[0]), (bars[0] + 1, end))
    members = [
        read_member(reader, *span)
        for span in between(at, end, [where for where, _ in reader.separators(at, end)])
    ]
    return part.listed(members, is_set=True)


def _with_condition(reader: Reader, members: tuple[int, int], condition: tuple[int, int]) -> Part:
    r"""`\{x \mid x > 3\}` is its condition; other sets are named by both sides."""
    name, found = name_of(reader.tokens, *members), reader.read(*condition)
    shown = reader.item(*members)
    if found.name and found.name in (name, shown.name) and (name or shown.numbers()):
        return found
    return Part(f"set {shown.embedded()} : {found.embedded()}")


def read_member(reader: Reader, at: int, end: int) -> Part:
    """A member of a set or a tuple, which may be words."""
    tokens = reader.tokens[at:end]
    text = " ".join(text for _, text, _ in tokens)
    if all(kind in ("word", "text") for kind, _, _ in tokens) and only_words(text):
        return part.words(text_key(text))
    return reader.item(at, end)


def read_operation(reader: Reader, at: int, end: int, operators: list[int]) -> Part:
    """Sets joined by the signs at `operators`.

    Raises:
        Unreadable: one of them is no set of real numbers.
        Undefined: an end has no value.
    """
    spans = between(at, end, operators)
    if len(spans) != len(operators) + 1:
        raise Unreadable("a set is missing")
    parts = [reader.item(*span) for span in spans]
    sets = [each.numbers() for each in parts]
    found = sets[0]
    for where, other in zip(operators, sets[1:], strict=True):
        if found is None or other is None:
            raise Unreadable("a set that is not of real numbers")
        mark = reader.tokens[where][1]
        if mark == "\\cap":
            found = intervals.intersection(found, other)
        elif mark in ("\\setminus", "-"):
            found = intervals.intersection(found, intervals.complement(other))
        else:
            found = intervals.union(found, other)
    return part.real_set(found or ())


def named(reader: Reader, at: int, end: int) -> Part:
    r"""The set whose name stands behind `\mathbb`, such as `R`, `N^*` or `Z_+`."""
    name = _POSITIVE.sub("+", _bare(reader, at, end))
    if name in ("N+", "Z+"):
        return Part(f"{_SET}Z+")
    return part.real_set(intervals.REALS) if name == "R" else Part(f"{_SET}{name}")


def _bare(reader: Reader, at: int, end: int) -> str:
    """The tokens of a range without braces."""
    return "".join(text for _, text, _ in reader.tokens[at:end] if text not in "{}")


def read_membership(reader: Reader, left: Span, right: Span) -> Part:
    r"""`x \in (0, 1)` is the set, with a name; `2 \in A` says something else.

    Raises:
        Unreadable: a side is no answer.
        Undefined: a side has no value.
    """
    name = name_of(reader.tokens, *left)
    is_named = _NUMBER_SET.fullmatch(_bare(reader, *right))
    found = named(reader, *right) if is_named else reader.item(*right)
    if name:
        return replace(found, name=name)
    return Part(f"member {reader.item(*left).embedded()} of {found.embedded()}")


def excluded(parts: list[Part]) -> list[Part]:
    r"""The parts of `x \ne 1, 2`, where the sign holds for all numbers."""
    return [
        part.real_set(intervals.complement(numbers), parts[0].name, is_condition=True)
        if not each.name and not each.is_condition and (numbers := each.numbers())
        else each
        for each in parts
    ]


def without_integers(parts: list[Part]) -> list[Part]:
    r"""The parts without `k \in \mathbb{Z}`: it says of a letter what is meant without it."""
    kept = [each for each in parts if each.stated != f"{_SET}Z" or not each.name]
    names = {each.name for each in parts if each not in kept}
    is_said = all(
        each.node is None or any(ex.mentions(each.node, name) for name in names) for each in kept
    )
    return kept if kept and is_said else parts


def join_conditions(parts: list[Part], either: bool) -> Part:
    """Inequalities joined by `or`, or by `and` or a comma."""
    if any(each.node is not None and not each.name for each in parts):  # `y > 0, 5`
        return part.listed(parts)
    sets = [each.numbers() for each in parts]
    names = {each.name for each in parts if each.name}
    found = sets[0]
    for other in sets[1:]:
        if found is None or other is None or len(names) > 1:
            return part.listed(parts)
        found = intervals.union(found, other) if either else intervals.intersection(found, other)
    if found is None:
        return part.listed(parts)
    if not found:  # `x < 1, x > 3` means either
        found = intervals.union(*(numbers for numbers in sets if numbers is not None))
    return part.real_set(found, next(iter(names), ""), is_condition=True)
