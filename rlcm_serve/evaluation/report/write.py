"""From measures to a page and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from calibration.report_kit.files import replace_files
from calibration.report_kit.palette import inline_svg, png, settings
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.report import budgets, confidence, glossary, html, results, risk, votes
from rlcm_serve.evaluation.report import verbalized as voiced
from rlcm_serve.evaluation.report.section import Plate, Section

PAGE = "report.html"
FIGURES = "figures"


def write_report(measures: RunMeasures, out: Path) -> Path:
    """Write a report: `report.html`, which needs nothing else, and `figures/` with its PNGs.

    The files depend on the measures alone; those of an earlier report in the folder are replaced
    once all is drawn. Figures are drawn with settings that matplotlib shares between threads:
    write one report at a time.

    Returns:
        Path of the page.

    Raises:
        RequestRefused: `out` is a file, or nothing was measured.
    """
    if not measures.benchmarks:
        raise RequestRefused("data", "no benchmark was measured: a report needs at least one")
    sections = [
        results.section(measures),
        confidence.section(measures),
        budgets.section(measures),
        risk.section(measures),
        votes.section(measures),
        voiced.section(measures),
        glossary.words(measures),
        glossary.made(measures),
    ]
    header = (
        f'<p class="muted">rlcm-serve {escape(measures.version)}, {escape(measures.created)}</p>\n'
        f"<h1>{escape(measures.name)}</h1>\n"
        f'<p class="promise">{escape(results.headline(measures))}</p>\n'
        f"{results.cards(measures)}{contents(sections)}"
    )
    return write_page(out, PAGE, f"Evaluation of {measures.name}", header, sections)


def write_page(out: Path, name: str, title: str, header: str, sections: Sequence[Section]) -> Path:
    """Draw the sections' figures, and write them and the page, all or nothing.

    Raises:
        RequestRefused: `out` is a file.
    """
    if out.exists() and not out.is_dir():
        raise RequestRefused("out", f"{out} is a file: give a folder for the report")
    files: dict[str, bytes] = {}
    body = []
    with settings():
        for section in sections:
            content = [
                part if isinstance(part, str) else _drawn(part, files) for part in section.content
            ]
            body.append(html.section(section.anchor, section.title, section.intro, content))
    files[name] = html.document(title, header, "".join(body)).encode()
    former = [f"{FIGURES}/{path.name}" for path in (out / FIGURES).glob("*.png")]
    replace_files(out, files, former)
    return out / name


def contents(sections: Iterable[Section]) -> str:
    """Links to all sections."""
    links = "".join(
        f'<li><a href="#{section.anchor}">{escape(section.title)}</a></li>' for section in sections
    )
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _drawn(plate: Plate, files: dict[str, bytes]) -> str:
    figure = plate.draw()
    files[f"{FIGURES}/{plate.name}.png"] = png(figure)
    figure.set_layout_engine("none")  # as laid out for the PNG
    svg = inline_svg(figure, plate.name, plate.caption.alt)
    return html.figure(plate.name, svg, plate.caption)
