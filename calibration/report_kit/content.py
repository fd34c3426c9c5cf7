"""What a page is made of: sections of text, tables and figures, as plain values.

`calibration.report_kit.page` turns them into HTML. Nothing here draws, and no text is HTML: the
templates escape every string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from calibration.report_kit.tables import Table

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Caption:
    """Text of one figure.

    Attributes:
        title: its heading.
        text: how to read the figure, and what does not follow from it.
        alt: what the figure shows, for readers who cannot see it.
    """

    title: str
    text: str
    alt: str


@dataclass(frozen=True, slots=True)
class Plate:
    """A figure before it is drawn.

    Attributes:
        name: its anchor, and the stem of its PNG; unique on the page.
        draw: makes it, in the light colours of the palette.
        caption: its heading, its text and its alt text.
    """

    name: str
    draw: Callable[[], Figure]
    caption: Caption


@dataclass(frozen=True, slots=True)
class DrawnPlate:
    """A `Plate` with its figure as an element of the page."""

    template: ClassVar[str] = "plate"

    name: str
    svg: Markup
    caption: Caption


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a short text with a look of its own.

    Attributes:
        text: the sentences.
        kind: a plain paragraph; a heading within a section; a note that a reader must not miss; or
            a text in place of something that could not be measured.
    """

    template: ClassVar[str] = "text"

    text: str
    kind: Literal["paragraph", "heading", "note", "empty"] = "paragraph"


@dataclass(frozen=True, slots=True)
class Card:
    """A key number: its name, its value, and a small remark below."""

    name: str
    value: str
    remark: str


@dataclass(frozen=True, slots=True)
class Cards:
    """The key numbers of a report, side by side."""

    template: ClassVar[str] = "cards"

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Links:
    """Links within the page: titles by anchor. `label` says where they lead."""

    template: ClassVar[str] = "links"

    label: str
    titles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    template: ClassVar[str] = "bullets"

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Definitions:
    """Terms and their meanings."""

    template: ClassVar[str] = "definitions"

    terms: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Folded:
    """Tables that open with a click on the summary."""

    template: ClassVar[str] = "folded"

    summary: str
    tables: Sequence[Table]


Part: TypeAlias = Plate | DrawnPlate | Table | Text | Cards | Links | Bullets | Definitions | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        anchor: its id.
        title: its heading.
        intro: the question that it answers; may be empty.
        content: its parts, in order.
        finding: its result in one line. A section with a finding is folded, and this line is seen
            beside its title.
    """

    anchor: str
    title: str
    intro: str
    content: Sequence[Part]
    finding: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page.

    Attributes:
        title: of the browser's window.
        heading: the first line.
        lead: the result in one or two sentences.
        sections: the body.
        about: what the page is about, in small above the heading; may be empty.
        header: parts below the lead, such as key numbers and links.
    """

    title: str
    heading: str
    lead: str
    sections: Sequence[Section]
    about: str = ""
    header: Sequence[Part] = ()
