"""From measures to a page and its figures."""

from __future__ import annotations

from pathlib import Path

from calibration.report_kit.content import Page, contents
from calibration.report_kit.page import write_page
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.report import (
    budgets,
    confidence,
    glossary,
    results,
    risk,
    verbalized,
    votes,
)

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
        verbalized.section(measures),
        glossary.terms(measures),
        glossary.made(measures),
    ]
    page = Page(
        title=f"Evaluation of {measures.name}",
        about=f"rlcm-serve {measures.version}, {measures.created}",
        heading=measures.name,
        lead=results.headline(measures),
        header=[results.cards(measures), contents(sections)],
        sections=sections,
    )
    return write_into(out, PAGE, page)


def write_into(out: Path, name: str, page: Page) -> Path:
    """Write a page of this name into a folder, and its figures into `figures/` there.

    Raises:
        RequestRefused: `out` is a file.
    """
    if out.exists() and not out.is_dir():
        raise RequestRefused("out", f"{out} is a file: give a folder for the report")
    former = [f"{FIGURES}/{path.name}" for path in (out / FIGURES).glob("*.png")]
    return write_page(page, out / name, FIGURES, former)
