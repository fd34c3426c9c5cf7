"""The words of a page in a file of their own: captions, notes and introductions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from calibration.report_kit import wording
from calibration.report_kit.content import Caption, Part, Plate, Section, Text


class Words:
    """A template of named blocks, each of one or more paragraphs.

    An empty line separates paragraphs. Within one, every run of blanks and line breaks is one
    blank. Nothing is escaped here: the page does it.

    Args:
        package: its folder `templates` has the template.
        name: of the template.
        filters: what the template uses besides the functions of `wording`.
    """

    def __init__(
        self, package: str, name: str, filters: Mapping[str, Callable[..., object]]
    ) -> None:
        self._environment = Environment(
            loader=PackageLoader(package),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= dict(inspect.getmembers(wording, inspect.isfunction))
        self._environment.filters |= filters
        self._name = name

    def paragraphs(self, block: str, **values: object) -> list[str]:
        """The paragraphs of a block."""
        template = self._environment.get_template(self._name)
        text = "".join(template.blocks[block](template.new_context(values)))
        return [re.sub(r"[ \n]+", " ", each) for each in re.split(r"\n\s*\n", text.strip(" \n"))]

    def __call__(self, block: str, **values: object) -> str:
        """The only paragraph of a block."""
        (text,) = self.paragraphs(block, **values)
        return text

    def missing(self, block: str) -> Text:
        """A text in place of something that could not be measured."""
        return Text(self(block), "empty")

    def plate(
        self, block: str, draw: Callable[[], Figure], name: str = "", **values: object
    ) -> Plate:
        """A figure; its block has three paragraphs: title, text, and what the figure shows."""
        title, text, alt = self.paragraphs(block, **values)
        return Plate(name or block.replace("_", "-"), draw, Caption(title, text, alt))

    def section(
        self,
        anchor: str,
        content: Sequence[Part],
        finding: str | None = None,
        **values: object,
    ) -> Section:
        """A section; its block `section_ANCHOR` has the title, and the introduction if any."""
        block = f"section_{anchor.replace('-', '_')}"
        title, *intro = self.paragraphs(block, **values)
        return Section(anchor, title, " ".join(intro), content, finding)
