"""Matrices."""

from __future__ import annotations

from rlcm_serve.answers.canonical import part
from rlcm_serve.answers.canonical.expressions import nodes as ex
from rlcm_serve.answers.canonical.expressions.nodes import Node
from rlcm_serve.answers.canonical.part import Part
from rlcm_serve.answers.canonical.reader import Reader, between
from rlcm_serve.answers.canonical.text.tokens import Unreadable


def read_matrix(reader: Reader, at: int, end: int, factor: Node = 1) -> Part:
    """The matrix of a range, times a factor; one row is a tuple in square brackets.

    Raises:
        Unreadable: a cell is no answer.
        Undefined: a cell has no value.
    """
    rows = []
    for row in between(at, end, reader.marks(at, end, ("\\\\",))):
        cells = between(*row, reader.marks(*row, ("&",)))
        members = [reader.item(*cell) for cell in cells]
        if factor != 1:
            members = [part.value(ex.product(factor, _number(each))) for each in members]
        rows.append(part.tuple_of(members, "[", "]").stated)
    return of_rows(rows)


def of_rows(rows: list[str]) -> Part:
    """The matrix with rows of these keys."""
    return Part(rows[0] if len(rows) == 1 else f"matrix {';'.join(rows)}")


def _number(cell: Part) -> Node:
    if cell.node is None:
        raise Unreadable("a cell that is no number")
    return cell.node
