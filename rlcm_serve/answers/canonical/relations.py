"""Equations and inequalities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rlcm_serve.answers.canonical import intervals, part
from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import fixed_point as fixed
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.fixed_point import Undefined
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.intervals import HIGHEST, LOWEST, End, Piece
from rlcm_serve.answers.canonical.names import name_of
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.reader import Reader, Span
from rlcm_serve.answers.canonical.text.tokens import Unreadable

_VALUE_AT = re.compile(r"(?<!^f)\((?![a-z](?:,[a-z])*\))")
"""In the name of one value of a function, such as `P(2)`, which is no product."""
_OPERATORS = frozenset(("\\int", "\\sum", "\\prod", "\\lim"))
_TURNED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne"}


def equation(reader: Reader, spans: Sequence[Span]) -> Part:
    """`x = 5` is 5 with a name; `x + y = 3` is a relation.

    Raises:
        Unreadable: it is an equation of neither kind.
        Undefined: a side has no value.
    """
    *left, right = spans
    if any(not reader.tokens[at][1].isascii() for span in left for at in range(*span)):
        raise Unreadable("a sentence in Chinese")
    names = [name_of(reader.tokens, *span) for span in left]
    if all(names) and len(names) > 1:  # x = y = 2
        value = reader.item(*right)
        found = part.listed([replace(value, name=name) for name in dict.fromkeys(names)])
        return replace(found, reading=value.stated)
    if names[0]:
        found = reader.item(*right)
        relation = "" if _VALUE_AT.search(names[0]) else _relation_of(reader, spans)
        return replace(found, name=names[0], relation=relation)
    if name := name_of(reader.tokens, *right):
        value = reader.item(*left[0])
        if value.node is not None and not ex.contains(value.node, "symbol"):
            return replace(value, name=name, relation=_relation_of(reader, spans))
    if any(reader.tokens[at][1] in _OPERATORS for at, _ in left):  # `\int_0^1 x dx = 1/2`
        return reader.item(*right)
    nodes = [reader.expression(*span) for span in spans]
    if len(nodes) == 2 and any(ex.contains(node, "symbol") for node in nodes):
        key = _proportion(ex.total(nodes[0], ex.product(-1, nodes[1])))
        return Part(f"equation {key}", relation=key)
    values = {evaluation.key(node) for node in nodes}
    if len(values) > 1:
        raise Unreadable("sides that differ")
    return reader.item(*right)


def comparison(reader: Reader, spans: Sequence[Span], marks: Sequence[str]) -> Part:
    """`x < 3` and `0 < x <= 1` are sets of numbers; other inequalities are relations.

    Raises:
        Unreadable: it is an inequality of neither kind.
        Undefined: a side has no value.
    """
    names = [name_of(reader.tokens, *span) for span in spans]
    if len(spans) == 2:
        if (found := _distance(reader, spans, marks[0])) is not None:
            return found
        if names[0] and (end := _end(reader, spans[1])):
            return part.real_set(_ray(marks[0], end), names[0], is_condition=True)
        if names[1] and (end := _end(reader, spans[0])):
            return part.real_set(_ray(_TURNED[marks[0]], end), names[1], is_condition=True)
        return _inequality(reader, spans, marks[0])
    low, high = _end(reader, spans[0]), _end(reader, spans[-1])
    if len(spans) != 3 or not names[1] or low is None or high is None or "\\ne" in marks:
        return _chain(reader, spans, marks, names[1] if len(spans) == 3 else "")
    numbers = intervals.intersection(_ray(_TURNED[marks[0]], low), _ray(marks[1], high))
    return part.real_set(numbers, names[1], is_condition=True)


def ray(reader: Reader, span: Span, mark: str) -> Part:
    r"""`\ge 5`, of a variable that is not named.

    Raises:
        Unreadable: the side is no number.
    """
    end = _end(reader, span)
    if end is None:
        raise Unreadable("a comparison with no number")
    return part.real_set(_ray(mark, end), is_condition=True)


def rounded(reader: Reader, left: Span, right: Span) -> Part:
    r"""The exact side of `1/3 \approx 0.333`; a relation if the sides differ, as in `3 \sim 5`.

    Raises:
        Unreadable: the exact side is no answer.
        Undefined: it has no value.
    """
    exact = reader.item(*left)
    try:
        near = reader.item(*right)
    except (Unreadable, Undefined):
        return exact
    if exact.node is not None and near.node is not None:
        one, other = (evaluation.evaluate(node, 0) for node in (exact.node, near.node))
        if isinstance(one, int) and isinstance(other, int) and 20 * abs(one - other) > abs(one):
            return Part(f"relation {exact.stated}\\approx{near.stated}")
    return exact


def _chain(reader: Reader, spans: Sequence[Span], marks: Sequence[str], name: str) -> Part:
    """`a < b <= c` as a relation, or as an interval if the middle is a name and no end is one.

    Raises:
        Unreadable: the signs point in both directions.
        Undefined: a side has no value.
    """
    turned = [_TURNED[mark] for mark in reversed(marks)]
    if set(marks) <= {">", "\\ge"}:
        spans, marks = [*reversed(spans)], turned
    if not set(marks) <= {"<", "\\le"}:
        raise Unreadable("an inequality")
    parts = [part.value(reader.expression(*span)) for span in spans]
    if name and not any(name_of(reader.tokens, *span) for span in (spans[0], spans[-1])):
        brackets = ("[" if marks[0] == "\\le" else "(", "]" if marks[-1] == "\\le" else ")")
        return replace(part.tuple_of([parts[0], parts[-1]], *brackets), name=name)
    signs = zip(marks, parts[1:], strict=True)
    return Part(
        f"relation {parts[0].stated}" + "".join(f"{mark}{each.stated}" for mark, each in signs)
    )


def _distance(reader: Reader, spans: Sequence[Span], mark: str) -> Part | None:
    """`|x| < 2` as `-2 < x < 2`; None if it is something else."""
    at, end = spans[0]
    name = name_of(reader.tokens, at + 1, end - 1)
    if not name or {reader.tokens[at][1], reader.tokens[end - 1][1]} != {"|"}:
        return None
    limit = reader.item(*spans[1]).node
    if limit is None or mark == "\\ne":
        return None
    low, high = End.of(ex.product(-1, limit)), End.of(limit)
    below = mark in ("<", "\\le")
    combine = intervals.intersection if below else intervals.union
    return part.real_set(combine(_ray(_TURNED[mark], low), _ray(mark, high)), name, True)


def _end(reader: Reader, span: Span) -> End | None:
    found = reader.item(*span)
    if found.stated in ("inf", "-inf"):
        return HIGHEST if found.stated == "inf" else LOWEST
    numbers = None if found.node is None else found.numbers()
    return None if numbers is None else numbers[0].low


def _ray(mark: str, end: End) -> intervals.RealSet:
    match mark:
        case "<" | "\\le":
            return intervals.union((Piece(LOWEST, end, (False, mark == "\\le")),))
        case ">" | "\\ge":
            return intervals.union((Piece(end, HIGHEST, (mark == "\\ge", False)),))
    return intervals.complement((Piece(end, end, (True, True)),))


def _inequality(reader: Reader, spans: Sequence[Span], mark: str) -> Part:
    left, right = (reader.expression(*span) for span in spans)
    if mark in (">", "\\ge"):
        left, right, mark = right, left, _TURNED[mark]
    difference = ex.total(right, ex.product(-1, left))
    if not ex.contains(difference, "symbol"):
        raise Unreadable("no variable")
    key = f"{mark} {_proportion(difference)}"
    if mark != "\\ne":
        key += f" {fixed.direction(evaluation.evaluate(difference, 1)):.3f}"
    return Part(f"relation {key}")


def _relation_of(reader: Reader, spans: Sequence[Span]) -> str:
    """The key of the equation; empty if a side is no expression."""
    if len(spans) != 2:
        return ""
    try:
        left, right = (reader.expression(*span) for span in spans)
        if ex.contains(right, "plus-minus", "minus-plus", "degrees"):
            return ""
        return _proportion(ex.total(left, ex.product(-1, right)))
    except (Unreadable, Undefined):
        return ""


def _proportion(difference: Node) -> str:
    """The key of `difference = 0`, the same for all multiples of the difference.

    Raises:
        Undefined: it is zero at a point, or has no value.
    """
    first, second = (evaluation.evaluate(difference, point) for point in evaluation.POINTS)
    if first == 0 or second == 0:
        raise Undefined("a difference of zero")
    return fixed.digits(fixed.multiply(first, fixed.inverse(second)))
