"""From content to one HTML file that loads nothing from elsewhere, and its figures as PNGs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibration.report_kit.content import DrawnPlate, Page, Part, Plate
from calibration.report_kit.files import replace_files
from calibration.report_kit.palette import css_variables
from calibration.report_kit.style import settings
from calibration.report_kit.svg import inline_svg, png


def html_of(part: Part) -> Markup:
    """One part as HTML.

    Raises:
        TypeError: a figure that is not drawn yet.
    """
    if isinstance(part, Plate):
        raise TypeError(f"the figure {part.name!r} is not drawn: write_page draws it")
    macro = getattr(_ENVIRONMENT.get_template("parts.html.j2").module, part.template)
    return Markup(macro(part))


_ENVIRONMENT = Environment(
    loader=PackageLoader("calibration.report_kit"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["html"] = html_of


def write_page(page: Page, path: Path, figures: str = "") -> Path:
    """Draw the figures of a page, then write PNGs and page, all or nothing.

    PNGs of an earlier page at `path` are removed unless they are written again.

    Figures are drawn with settings that matplotlib shares between threads: write one page at a
    time.

    Args:
        page: its content.
        path: of the HTML file.
        figures: folder of the PNGs, within that of the page; empty for the same folder.

    Returns:
        Path of the page.
    """
    folder = f"{figures}/" if figures else ""
    files: dict[str, bytes] = {}
    with settings():
        sections = [
            replace(section, content=list(_drawn(section.content, folder, files)))
            for section in page.sections
        ]
    template = _ENVIRONMENT.get_template("page.html.j2")
    text = template.render(page=replace(page, sections=sections), colors=css_variables())
    former = [f"{folder}{name}.png" for name in _figures_of(path)]
    replace_files(path.parent, {**files, path.name: text.encode()}, former)
    return path


def _figures_of(path: Path) -> list[str]:
    """The names of the figures on a page; none if there is no page."""
    if not path.is_file():
        return []
    return re.findall(r'<figure data-name="([\w-]+)">', path.read_text("utf-8", errors="replace"))


def _drawn(content: Iterable[Part], folder: str, files: dict[str, bytes]) -> Iterator[Part]:
    """The parts with every figure drawn; adds their PNGs to `files`."""
    for part in content:
        if not isinstance(part, Plate):
            yield part
            continue
        figure = part.draw()
        files[f"{folder}{part.name}.png"] = png(figure)
        figure.set_layout_engine("none")  # as laid out for the PNG
        yield DrawnPlate(part.name, inline_svg(figure, part.name, part.caption.alt), part.caption)
