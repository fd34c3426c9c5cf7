"""A page in one file, without anything from elsewhere: its frame, its tables, its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Literal

from calibration.report.labels import Caption
from calibration.report_kit.palette import css_variables


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure in a table.

    Attributes:
        text: the figure.
        small: its interval, or what else belongs to it, below; line by line.
        rank: the best of its column, or the second best.
        kind: a number, a name, or words that need room.
    """

    text: str
    small: str = ""
    rank: Literal["", "best", "second"] = ""
    kind: Literal["number", "name", "words"] = "number"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table; an indented one is part of the line before it, `small` is below `head`."""

    head: str
    cells: Sequence[Cell]
    indented: bool = False
    small: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A figure to take away."""

    name: str
    value: str
    of: str


def document(title: str, header: str, body: str) -> str:
    """The whole page."""
    look = resources.files("calibration.report").joinpath("page.css").read_text("utf-8")
    own = Path(__file__).with_name("page.css").read_text("utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{css_variables()}
{look}{own}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{body}</main>
</body>
</html>
"""


def section(anchor: str, title: str, intro: str, content: Sequence[str]) -> str:
    """A section with its heading."""
    opening = paragraph(intro) if intro else ""
    inside = f'<h2 id="{anchor}">{escape(title)}</h2>\n{opening}{"".join(content)}'
    return f"<section>\n{inside}</section>\n"


def figure(name: str, svg: str, caption: Caption) -> str:
    """A figure under its heading; on a narrow screen it scrolls rather than shrinks."""
    return (
        f'<h3 id="{name}">{escape(caption.title)}</h3>\n'
        f'<figure><div class="plate" tabindex="0" role="group" '
        f'aria-label="{escape(caption.title)}">{svg}</div>'
        f"<figcaption>{escape(caption.text)}</figcaption></figure>\n"
    )


def table(caption: str, head: Sequence[str], rows: Sequence[Row]) -> str:
    """A table that scrolls by itself where the page is narrow, by keyboard too.

    Args:
        caption: what it shows.
        head: names of all columns, that of the rows' heads first.
        rows: as many cells each as there are further columns.
    """
    kinds = [cell.kind for cell in rows[0].cells] if rows else ["number"] * (len(head) - 1)
    columns = f'<th scope="col">{escape(head[0])}</th>' + "".join(
        f'<th scope="col"{_NUMBER if kind == "number" else ""}>{escape(name)}</th>'
        for name, kind in zip(head[1:], kinds, strict=True)
    )
    body = "".join(map(_row, rows))
    return (
        f'<div class="scroll" tabindex="0"><table>{_caption(caption)}'
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )


def grouped_table(
    caption: str, head: Sequence[str], groups: Mapping[str, Sequence[str]], rows: Sequence[Row]
) -> str:
    """A table whose columns stand in groups.

    Args:
        caption: what it shows.
        head: names of the first columns, that of the rows' heads first; their cells are names.
        groups: names of columns by name of their group.
        rows: as many cells each as there are further columns.
    """
    above = "".join(f'<th scope="col" rowspan="2">{escape(name)}</th>' for name in head) + "".join(
        f'<th scope="colgroup" colspan="{len(names)}" class="group">{escape(group)}</th>'
        for group, names in groups.items()
    )
    below = "".join(
        f'<th scope="col"{_NUMBER}>{escape(name)}</th>'
        for names in groups.values()
        for name in names
    )
    return (
        f'<div class="scroll" tabindex="0"><table>{_caption(caption)}'
        f"<thead><tr>{above}</tr><tr>{below}</tr></thead>"
        f"<tbody>{''.join(map(_row, rows))}</tbody></table></div>\n"
    )


def pairs(caption: str, values: Mapping[str, str]) -> str:
    """Names and their values."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="words">{escape(value)}</td></tr>'
        for name, value in values.items()
    )
    return (
        f'<div class="scroll" tabindex="0"><table>{_caption(caption)}'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def definitions(terms: Mapping[str, str]) -> str:
    """Terms and what they mean."""
    rows = "".join(
        f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items()
    )
    return f'<dl class="terms">{rows}</dl>\n'


def cards(shown: Sequence[Card]) -> str:
    """The few figures to take away."""
    rows = (
        f"<div><dt>{escape(card.name)}</dt>"
        f"<dd>{escape(card.value)}<small>{escape(card.of)}</small></dd></div>"
        for card in shown
    )
    return f'<dl class="cards">{"".join(rows)}</dl>\n'


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>\n"


def folded(summary: str, content: str) -> str:
    """Details for those who want them."""
    return f"<details><summary>{escape(summary)}</summary>\n{content}</details>\n"


def heading(text: str) -> str:
    """A heading within a section, above a table."""
    return f"<h3>{escape(text)}</h3>\n"


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(text)}</p>\n"


def note(text: str) -> str:
    """What a reader must not miss."""
    return f'<p class="note">{escape(text)}</p>\n'


def empty(text: str) -> str:
    """In place of what could not be measured: why not, and what to do for it."""
    return f'<p class="empty">{escape(text)}</p>\n'


_NUMBER = ' class="number"'


def _caption(text: str) -> str:
    """It stays in view when a wide table scrolls."""
    return f"<caption><span>{escape(text)}</span></caption>"


def _row(row: Row) -> str:
    indented = ' class="part"' if row.indented else ""
    small = f"<small>{escape(row.small)}</small>" if row.small else ""
    return (
        f'<tr><th scope="row"{indented}>{escape(row.head)}{small}</th>'
        f"{''.join(map(_cell, row.cells))}</tr>"
    )


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    if cell.rank == "best":
        text = f"<strong>{text}</strong>"
    elif cell.rank == "second":
        text = f"<u>{text}</u>"
    small = "".join(f"<small>{escape(line)}</small>" for line in cell.small.splitlines())
    return f'<td class="{cell.kind}">{text}{small}</td>'
