"""The page of a comparison, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from calibration.report_kit.content import (
    Bullets,
    Caption,
    Folded,
    Page,
    Part,
    Plate,
    Section,
    contents,
)
from calibration.report_kit.tables import Cell, Rank, Row, Table, number_cell, share_cell
from calibration.report_kit.wording import (
    UNDEFINED,
    excludes_zero,
    in_points,
    listed,
    number_in_full,
    number_interval,
    points,
    signed,
)
from rlcm_serve.evaluation.compare import figures
from rlcm_serve.evaluation.compare.base import (
    COLUMNS,
    DIFFERENCES,
    BenchmarkComparison,
    Comparison,
    Difference,
    Place,
)
from rlcm_serve.evaluation.compare.curves import curves
from rlcm_serve.evaluation.report.confidence import TITLES
from rlcm_serve.evaluation.report.style import title_of
from rlcm_serve.evaluation.report.write import write_into

PAGE, FIGURES_AS_JSON = "comparison.html", "comparison.json"


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write `comparison.html`, which needs nothing else, its figures as PNGs, and the JSON.

    Returns:
        Path of the page.

    Raises:
        RequestRefused: `out` is a file.
    """
    sections = list(_sections(comparison))
    names = listed(comparison.names)
    page = Page(
        title=f"Comparison of {names}",
        heading=names,
        lead=headline(comparison),
        header=[contents(sections)],
        sections=sections,
    )
    written = write_into(out, PAGE, page)
    (out / FIGURES_AS_JSON).write_bytes(
        msgspec.json.format(msgspec.json.encode(_plain(comparison)))
    )
    return written


def headline(comparison: Comparison) -> str:
    """The result of the paired differences in accuracy."""
    first = comparison.names[0]
    found = [
        (benchmark.title, difference.run, difference.metrics["accuracy"])
        for benchmark in comparison.benchmarks
        for difference in benchmark.differences
        if difference.metrics
    ]
    clear = [(title, run, d) for title, run, d in found if excludes_zero(d) and d.value is not None]
    if not clear:
        return f"No run differs from {first} in accuracy by more than chance."
    said = [
        f"{run} is {points(abs(d.value)).lstrip('+')} {'better' if d.value > 0 else 'worse'} "
        f"than {first} on {title}"
        for title, run, d in clear
        if d.value is not None
    ]
    rest = len(found) - len(clear)
    others = " Other differences in accuracy may be due to chance." if rest else ""
    return f"In accuracy, {listed(said)}.{others}"


def _sections(comparison: Comparison) -> Iterator[Section]:
    yield _warnings(comparison)
    yield _results(comparison)
    yield _differences(comparison)
    yield from curves(comparison)
    yield _made(comparison)


def _warnings(comparison: Comparison) -> Section:
    intro = (
        "A difference between two runs is a difference between the models only if everything else "
        "is the same. Here it is not:"
        if comparison.warnings
        else "Sampling, budgets, graders, problems and rollouts are the same in all runs."
    )
    content = (Bullets(comparison.warnings),) if comparison.warnings else ()
    return Section("alike", "What else differs", intro, content)


def _results(comparison: Comparison) -> Section:
    """The main table (RLCM Table 1), and the same with intervals."""
    in_full = [_with_intervals(comparison, benchmark) for benchmark in comparison.benchmarks]
    return Section(
        "results",
        "Accuracy and calibration",
        "Share of right rollouts (higher is better), positive and expected calibration error of "
        "the confidence at their end (lower is better). Best in bold"
        + (", second best underlined" if len(comparison.names) > 2 else "")
        + "; figures that are equal in print share their rank. A rank may be due to chance: see "
        "the differences below.",
        (_main_table(comparison), Folded("The same with intervals", in_full)),
    )


def _main_table(comparison: Comparison) -> Table:
    columns = [(benchmark.title, benchmark.table) for benchmark in comparison.benchmarks]
    if comparison.overall:
        columns.append(("Overall", comparison.overall))
    overall = " Overall: mean of the benchmarks that all runs have." if comparison.overall else ""
    rows = []
    for i, name in enumerate(comparison.names):
        cells = [Cell(title_of(comparison.sources[i]), kind="name")]
        for _, table in columns:
            cells += [Cell(cell.text.rstrip("%"), rank=cell.rank) for cell in _places(table[i])]
        rows.append(Row(name, cells))
    return Table(
        f"Runs and benchmarks. –: not evaluated.{overall}",
        ["run", "confidence"],
        rows,
        groups={title: ["Acc % ↑", "PCE ↓", "ECE ↓"] for title, _ in columns},
    )


def _with_intervals(comparison: Comparison, benchmark: BenchmarkComparison) -> Table:
    return Table(
        f"{benchmark.title}, with 95% intervals by resampling problems, for each run alone.",
        ["run", "accuracy", "PCE", "ECE"],
        [
            Row(name, _places(places))
            for name, places in zip(comparison.names, benchmark.table, strict=True)
        ],
    )


def _places(places: dict[str, Place] | None) -> list[Cell]:
    if places is None:
        return [Cell(UNDEFINED)] * len(COLUMNS)
    accuracy, *errors = (places[column] for column in COLUMNS)
    return [
        share_cell(accuracy.estimate, accuracy.rank),
        *(number_cell(error.estimate, rank=error.rank) for error in errors),
    ]


def _differences(comparison: Comparison) -> Section:
    first = comparison.names[0]
    content: list[Part] = []
    if any(d.metrics for benchmark in comparison.benchmarks for d in benchmark.differences):
        content.append(
            Plate(
                "differences",
                partial(figures.draw_differences, comparison),
                Caption(
                    f"Differences to {first}",
                    f"Points right of the line are higher than in {first}: better for accuracy and "
                    "AUROC, worse for ECE. Bars are 95% intervals of paired resamples: both runs "
                    "use the same resampled problems, so the difficulty that they share cancels "
                    "out. If a bar does not cross the line, the runs differ on problems like "
                    "these. Without any difference, about one bar in twenty does so by chance.",
                    f"Differences to {first}. " + " ".join(_said(comparison)),
                ),
            )
        )
    content += [
        _difference_table(benchmark, first)
        for benchmark in comparison.benchmarks
        if benchmark.differences
    ]
    return Section(
        "differences-in-full",
        "Paired differences",
        f"How much do the other runs differ from {first} on the problems that both have?",
        tuple(content),
    )


def _difference_table(benchmark: BenchmarkComparison, first: str) -> Table:
    titles = {**TITLES, "accuracy": "accuracy, points"}
    return Table(
        f"{benchmark.title}: run minus {first} on the problems that both have, with 95% intervals "
        "of paired resamples. Bold: the interval excludes 0.",
        ["run", "problems", *(titles[name] for name in DIFFERENCES)],
        [
            Row(found.run, [Cell(f"{found.n_problems:,}"), *_difference_cells(found)])
            for found in benchmark.differences
        ],
    )


def _difference_cells(found: Difference) -> list[Cell]:
    if found.reason is not None:
        return [Cell("", found.reason), *[Cell("")] * (len(DIFFERENCES) - 1)]
    cells = []
    for name in DIFFERENCES:
        estimate = found.metrics[name]
        digits = 3
        if name == "accuracy":
            estimate, digits = in_points(estimate), 1
        marked: Rank = "best" if excludes_zero(estimate) else ""
        cells.append(Cell(signed(estimate, digits), number_interval(estimate, digits), marked))
    return cells


def _said(comparison: Comparison) -> Iterator[str]:
    for benchmark in comparison.benchmarks:
        for found in benchmark.differences:
            if found.metrics:
                accuracy = number_in_full(in_points(found.metrics["accuracy"]), 1)
                ece = number_in_full(found.metrics["ece"])
                yield f"{benchmark.title}, {found.run}: accuracy {accuracy} points, ECE {ece}."


def _made(comparison: Comparison) -> Section:
    """Models, engines and settings, run by run."""
    names = dict.fromkeys(name for run in comparison.measures for name in run.made_by)
    rows = [
        Row(name, [Cell(run.made_by.get(name, ""), kind="words") for run in comparison.measures])
        for name in ["Model", *(name for name in names if name != "Model")]
    ]
    return Section(
        "made",
        "What was run",
        "",
        (Table("Model, engine and settings.", ["setting", *comparison.names], rows),),
    )


def _plain(comparison: Comparison) -> dict[str, object]:
    """All fields but the runs' own measures, which are in their folders."""
    fields = {name: getattr(comparison, name) for name in comparison.__slots__}
    del fields["measures"]
    return fields
