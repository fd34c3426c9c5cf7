"""The page of a comparison, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from calibration.report_kit.content import Bullets, Folded, Page, Part, Section
from calibration.report_kit.tables import Cell, Row, Table
from calibration.report_kit.wording import excludes_zero, listed, points
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.compare import figures
from rlcm_serve.evaluation.compare.base import BenchmarkComparison, Comparison
from rlcm_serve.evaluation.compare.curves import curves
from rlcm_serve.evaluation.compare.tables import (
    DIFFERENCE_TITLES,
    difference_cells,
    main_columns,
    place_cells,
)
from rlcm_serve.evaluation.compare.words import words
from rlcm_serve.evaluation.report.style import title_of
from rlcm_serve.evaluation.report.write import write_into
from rlcm_serve.evaluation.run_folder import RunFolder

PAGE, FIGURES_AS_JSON = "comparison.html", "comparison.json"


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write `comparison.html`, which needs nothing else, its figures as PNGs, and the JSON.

    Returns:
        Path of the page.

    Raises:
        RequestRefused: `out` is a file, or holds a run, whose figures have the same names.
    """
    if RunFolder(out).is_begun:
        raise RequestRefused("out", f"{out} holds a run: give a folder of its own")
    sections = list(_sections(comparison))
    names = listed(comparison.names)
    page = Page(
        title=f"Comparison of {names}",
        heading=names,
        lead=headline(comparison),
        sections=sections,
    )
    written = write_into(out, PAGE, page)
    fields = (name for name in comparison.__slots__ if name != "measures")  # of the runs' folders
    plain = {name: getattr(comparison, name) for name in fields}
    (out / FIGURES_AS_JSON).write_bytes(msgspec.json.format(msgspec.json.encode(plain)))
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
    if not found:
        return f"No difference to {first} could be computed: {_why_none(comparison)}."
    said = [
        f"{run} is {points(abs(d.value)).lstrip('+')} {'better' if d.value > 0 else 'worse'} "
        f"than {first} on {title}"
        for title, run, d in found
        if d.value is not None and excludes_zero(d)
    ]
    if not said:
        return f"No run differs from {first} in accuracy by more than chance."
    rest = len(found) - len(said)
    others = " Other differences in accuracy may be due to chance." if rest else ""
    return f"In accuracy, {listed(said)}.{others}"


def _why_none(comparison: Comparison) -> str:
    """Why differences are missing."""
    differences = (d for benchmark in comparison.benchmarks for d in benchmark.differences)
    return listed(list(dict.fromkeys(d.reason for d in differences if d.reason is not None)))


def _sections(comparison: Comparison) -> Iterator[Section]:
    warnings = comparison.warnings
    yield words.section("alike", [Bullets(warnings)] if warnings else [], warnings=warnings)
    in_full = [_with_intervals(comparison, benchmark) for benchmark in comparison.benchmarks]
    yield words.section(
        "results",
        [_main_table(comparison), Folded("The same with intervals", in_full)],
        names=comparison.names,
    )
    first = comparison.names[0]
    yield words.section(
        "differences-in-full",
        list(_differences(comparison)),
        _first_difference(comparison),
        first=first,
    )
    yield from curves(comparison)
    yield words.section("made", [_made(comparison)], words("finding_made"))


def _main_table(comparison: Comparison) -> Table:
    """RLCM Table 1."""
    columns = list(main_columns(comparison, "Overall"))
    rows = []
    for i, name in enumerate(comparison.names):
        cells = [Cell(title_of(comparison.sources[i]), kind="name")]
        for _, by_run in columns:
            cells += [Cell(c.text.rstrip("%"), rank=c.rank) for c in place_cells(by_run[i])]
        rows.append(Row(name, cells))
    groups = {title: ["Acc % ↑", "PCE ↓", "ECE ↓"] for title, _ in columns}
    caption = words("main_table", overall=comparison.overall)
    return Table(caption, ["run", "confidence"], rows, groups)


def _with_intervals(comparison: Comparison, benchmark: BenchmarkComparison) -> Table:
    return Table(
        words("with_intervals", title=benchmark.title),
        ["run", "accuracy", "PCE", "ECE"],
        [
            Row(name, place_cells(places))
            for name, places in zip(comparison.names, benchmark.table, strict=True)
        ],
    )


def _first_difference(comparison: Comparison) -> str:
    first = comparison.names[0]
    for benchmark in comparison.benchmarks:
        for found in benchmark.differences:
            if found.metrics:
                return words("finding_differences", title=benchmark.title, first=first, found=found)
    return words("finding_no_differences", first=first, why=_why_none(comparison))


def _differences(comparison: Comparison) -> Iterator[Part]:
    first = comparison.names[0]
    if any(d.metrics for benchmark in comparison.benchmarks for d in benchmark.differences):
        draw = partial(figures.draw_differences, comparison)
        yield words.plate("differences", draw, first=first, benchmarks=comparison.benchmarks)
    for benchmark in comparison.benchmarks:
        if benchmark.differences:
            yield Table(
                words("difference_table", title=benchmark.title, first=first),
                ["run", "problems", *DIFFERENCE_TITLES.values()],
                [
                    Row(found.run, [Cell(f"{found.n_problems:,}"), *difference_cells(found)])
                    for found in benchmark.differences
                ],
            )


def _made(comparison: Comparison) -> Table:
    """Models, engines and settings, run by run."""
    names = dict.fromkeys(name for run in comparison.measures for name in run.made_by)
    rows = [
        Row(name, [Cell(run.made_by.get(name, ""), kind="words") for run in comparison.measures])
        for name in ["Model", *(name for name in names if name != "Model")]
    ]
    return Table("Model, engine and settings.", ["setting", *comparison.names], rows)
