"""Sections at the end: what every term means, what intervals do not cover, and what was run."""

from __future__ import annotations

from calibration.report_kit.content import Definitions, Part, Section, Text
from calibration.report_kit.tables import Cell, Row, Table, pairs
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.report.words import words
from rlcm_serve.evaluation.sources import ABOUT, Source


def terms(run: RunMeasures) -> Section:
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
    content += [Text("Intervals", "heading"), Text(words("intervals"))]
    return words.section("terms", content)


def made(run: RunMeasures) -> Section:
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
    )
