"""Tables of a page: columns, rows and cells, before they are HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from calibration.metrics.estimates import Estimate
from calibration.report_kit.wording import (
    TOO_FEW,
    number,
    number_interval,
    share,
    share_interval,
)

Rank = Literal["", "best", "second"]

_DIGITS = 3
"""Numbers that are equal after rounding to this many decimals share their rank."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: its content.
        small: its interval or other details, below in small; line by line.
        rank: the best of its column (bold), or the second best (underlined).
        kind: a number, a name, or words that need room.
        span: columns that it covers.
    """

    text: str
    small: str = ""
    rank: Rank = ""
    kind: Literal["number", "name", "words"] = "number"
    span: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table; an indented one is part of the line before it, `small` is below `head`."""

    head: str
    cells: Sequence[Cell]
    indented: bool = False
    small: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption. It scrolls by itself where the page is narrow.

    Attributes:
        caption: what it shows.
        head: names of the columns, that of the rows' heads first; empty for a table of pairs.
        rows: its lines.
        groups: columns that follow those of `head`, by the name of their group.
    """

    template: ClassVar[str] = "table"

    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Name and kind of each column of `head`; kinds come from the first row without spans."""
        n_others = len(self.head) - 1
        rows = (row.cells for row in self.rows if len(row.cells) >= n_others)
        kinds = [cell.kind for cell in next(rows, ())] or ["number"] * n_others
        return list(zip(self.head, ["name", *kinds], strict=False))


def pairs(caption: str, values: Mapping[str, object]) -> Table:
    """A table of names and their values."""
    rows = [Row(name, [Cell(str(value), kind="words")]) for name, value in values.items()]
    return Table(caption, (), rows)


def number_cell(estimate: Estimate, digits: int = 3, rank: Rank = "") -> Cell:
    """A number with its interval below, or with the remark that there is none."""
    return Cell(number(estimate, digits), _below(estimate, number_interval(estimate, digits)), rank)


def share_cell(estimate: Estimate, rank: Rank = "") -> Cell:
    """A share as a percentage with its interval below, or with the remark that there is none."""
    return Cell(share(estimate), _below(estimate, share_interval(estimate)), rank)


def _below(estimate: Estimate, interval: str) -> str:
    return interval if interval or estimate.value is None else TOO_FEW


def ranked(estimates: Sequence[Estimate | None], higher_is_better: bool) -> list[Rank]:
    """The best and, of three or more, the second best; ties share a rank, and the next is lost."""
    sign = -1 if higher_is_better else 1
    scores = [
        None if e is None or e.value is None else sign * round(e.value, _DIGITS) for e in estimates
    ]
    known = sorted(score for score in scores if score is not None)
    if len(known) < 2:
        return [""] * len(scores)
    best = known[0]
    second = known[1] if len(known) > 2 and known[1] > best else None
    return [
        "" if score is None else "best" if score == best else "second" if score == second else ""
        for score in scores
    ]
