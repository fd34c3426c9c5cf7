"""From measures to a page and its figures; the sections at its end are here too."""

from __future__ import annotations

from pathlib import Path

from calibration.report_kit.content import Definitions, Page, Part, Section, Text
from calibration.report_kit.page import write_page
from calibration.report_kit.tables import Cell, Row, Table, pairs
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.report import (
    budgets,
    confidence,
    results,
    risk,
    verbalized,
    votes,
)
from rlcm_serve.evaluation.report.words import words
from rlcm_serve.evaluation.sources import ABOUT, Source

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
        _terms(measures),
        _made(measures),
    ]
    page = Page(
        title=f"Evaluation of {measures.name}",
        about=f"rlcm-serve {measures.version}, {measures.created}",
        heading=measures.name,
        lead=results.headline(measures),
        header=[results.cards(measures)],
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
    return write_page(page, out / name, FIGURES)


def _terms(run: RunMeasures) -> Section:
    """Metrics and sources of confidence, each in a few sentences."""
    metrics = dict(entry.split(": ", 1) for entry in words.paragraphs("metrics"))
    content: list[Part] = [Text("Metrics", "heading"), Definitions(metrics)]
    measured = dict.fromkeys(found.source for b in run.benchmarks for found in b.sources)
    if sources := {
        about.title: about.definition
        + (" Read while the model thinks; it costs no tokens." if about.online else "")
        + ("" if about.is_probability else " It does not claim to be a probability.")
        for about in (ABOUT[Source(name)] for name in measured)
    }:
        content += [Text("Sources of confidence", "heading"), Definitions(sources)]
    content += [Text("Intervals", "heading"), *map(Text, words.paragraphs("intervals"))]
    return words.section("terms", content, words("finding_terms"))


def _made(run: RunMeasures) -> Section:
    """The engine, its settings, and the problems."""
    rows = [
        Row(
            benchmark.title,
            [
                Cell(f"{benchmark.n_problems:,}"),
                Cell(f"{run.rollouts.get(benchmark.name, 0):,}"),
                Cell(benchmark.grader, kind="words"),
                Cell(benchmark.problems, kind="words"),
            ],
        )
        for benchmark in run.benchmarks
    ]
    head = ["benchmark", "problems", "rollouts of each", "grader", "digest"]
    return words.section(
        "made",
        (
            pairs("Model, engine and settings", {"Model": run.name, **run.made_by}),
            Table("Benchmarks. Digest: of all problems and references.", head, rows),
            Text(f"rlcm-serve {run.version}, {run.created}."),
        ),
        words("finding_made"),
    )
