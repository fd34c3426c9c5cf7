"""Sets of real numbers: unions of intervals and points."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlcm_serve.answers.canonical.expressions import evaluation
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.text.tokens import Unreadable

MOST_PIECES = 100


@dataclass(frozen=True, slots=True)
class End:
    """An end of an interval.

    Attributes:
        place: where it is on the number line, in units of 2**-384; infinite for an open end.
        key: of its expression.
    """

    place: int | float
    key: str

    @classmethod
    def of(cls, node: Node) -> End:
        """The end at a real constant.

        Raises:
            Unreadable: the expression is not one.
            Undefined: it has no value.
        """
        if ex.contains(node, "symbol"):
            raise Unreadable("an end that is not a number")
        place = evaluation.evaluate(node, 0)
        if not isinstance(place, int):
            raise Unreadable("an end that is not real")
        return cls(place, evaluation.key(node))


LOWEST, HIGHEST = End(-math.inf, "-inf"), End(math.inf, "inf")


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval, or a point if both ends are the same; `closed` tells which ends belong to it."""

    low: End
    high: End
    closed: tuple[bool, bool]

    @property
    def is_empty(self) -> bool:
        """Whether no number is in it."""
        if self.low.key == self.high.key:
            return not all(self.closed)
        return self.low.place > self.high.place

    @property
    def key(self) -> str:
        """A text that equal pieces share."""
        brackets = ("[" if self.closed[0] else "(", "]" if self.closed[1] else ")")
        return f"{brackets[0]}{self.low.key};{self.high.key}{brackets[1]}"


RealSet = tuple[Piece, ...]
"""Disjoint pieces from low to high."""
REALS: RealSet = (Piece(LOWEST, HIGHEST, (False, False)),)


def union(*sets: RealSet) -> RealSet:
    """The union.

    Raises:
        Unreadable: it has too many pieces.
    """
    pieces = sorted(
        (piece for each in sets for piece in each if not piece.is_empty),
        key=lambda piece: (piece.low.place, not piece.closed[0]),
    )
    if len(pieces) > MOST_PIECES:
        raise Unreadable("too many intervals")
    joined: list[Piece] = []
    for piece in pieces:
        if joined and _touch(joined[-1], piece):
            last = joined.pop()
            end = max(last, piece, key=lambda each: (each.high.place, each.closed[1]))
            piece = Piece(last.low, end.high, (last.closed[0], end.closed[1]))
        joined.append(piece)
    return tuple(joined)


def intersection(one: RealSet, other: RealSet) -> RealSet:
    """What is in both sets."""
    found = []
    for a in one:
        for b in other:
            low = max(a, b, key=lambda each: (each.low.place, not each.closed[0]))
            high = min(a, b, key=lambda each: (each.high.place, each.closed[1]))
            found.append(Piece(low.low, high.high, (low.closed[0], high.closed[1])))
    return union(tuple(found))


def complement(one: RealSet) -> RealSet:
    """All other real numbers."""
    ends = [(LOWEST, False)]
    for piece in one:
        ends += [(piece.low, not piece.closed[0]), (piece.high, not piece.closed[1])]
    ends.append((HIGHEST, False))
    gaps = zip(ends[::2], ends[1::2], strict=True)
    return union(
        tuple(
            Piece(low, high, (closed_low, closed_high))
            for (low, closed_low), (high, closed_high) in gaps
        )
    )


def points(nodes: list[Node]) -> RealSet:
    """The set of some real constants."""
    ends = [End.of(node) for node in nodes]
    return union(tuple(Piece(end, end, (True, True)) for end in ends))


def key(numbers: RealSet) -> str:
    """A text that equal sets share."""
    if not numbers:
        return EMPTY
    if all(piece.low == piece.high for piece in numbers):
        members = sorted(piece.low.key for piece in numbers)
        return members[0] if len(members) == 1 else f"{{{';'.join(members)}}}"
    return "∪".join(piece.key for piece in numbers)


EMPTY = "{}"


def _touch(one: Piece, other: Piece) -> bool:
    """Whether nothing is between a piece and the next one."""
    if one.high.key == other.low.key:
        return one.closed[1] or other.closed[0]
    return one.high.place > other.low.place
