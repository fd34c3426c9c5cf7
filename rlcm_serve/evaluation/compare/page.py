"""The page of a comparison, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from html import escape
from pathlib import Path

import msgspec

from calibration.metrics.estimates import Estimate
from calibration.report.labels import Caption
from calibration.report.wording import NB
from rlcm_serve.evaluation.compare import figures
from rlcm_serve.evaluation.compare.base import (
    COLUMNS,
    DIFFERENCES,
    BenchmarkComparison,
    Comparison,
    Difference,
    Place,
    Rank,
)
from rlcm_serve.evaluation.compare.curves import curves
from rlcm_serve.evaluation.report import html
from rlcm_serve.evaluation.report.confidence import TITLES
from rlcm_serve.evaluation.report.html import Cell, Row
from rlcm_serve.evaluation.report.section import Plate, Section
from rlcm_serve.evaluation.report.style import title_of
from rlcm_serve.evaluation.report.wording import (
    UNDEFINED,
    listed,
    number,
    number_in_full,
    number_interval,
    points,
    share,
    share_interval,
    signed,
)
from rlcm_serve.evaluation.report.write import contents, write_page

PAGE, FIGURES_AS_JSON = "comparison.html", "comparison.json"


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write `comparison.html`, which needs nothing else, its figures as PNGs, and the JSON.

    Returns:
        Path of the page.

    Raises:
        RequestRefused: `out` is a file.
    """
    sections = list(_sections(comparison))
    header = (
        f"<h1>{escape(listed(list(comparison.names)))}</h1>\n"
        f'<p class="promise">{escape(headline(comparison))}</p>\n{contents(sections)}'
    )
    title = f"Comparison of {listed(list(comparison.names))}"
    page = write_page(out, PAGE, title, header, sections)
    (out / FIGURES_AS_JSON).write_bytes(
        msgspec.json.format(msgspec.json.encode(_plain(comparison)))
    )
    return page


def headline(comparison: Comparison) -> str:
    """What the paired differences in accuracy say."""
    first = comparison.names[0]
    found = [
        (benchmark.title, difference.run, difference.metrics["accuracy"])
        for benchmark in comparison.benchmarks
        for difference in benchmark.differences
        if difference.metrics
    ]
    clear = [(title, run, d) for title, run, d in found if excludes_zero(d) and d.value is not None]
    if not clear:
        return f"In accuracy no run differs from {first} by more than chance might make."
    said = [
        f"{run} is {points(abs(d.value)).lstrip('+')} {'better' if d.value > 0 else 'worse'} "
        f"than {first} on {title}"
        for title, run, d in clear
        if d.value is not None
    ]
    rest = len(found) - len(clear)
    others = " What else differs in accuracy may be chance." if rest else ""
    return f"In accuracy, {listed(said)}.{others}"


def excludes_zero(difference: Estimate) -> bool:
    """Whether the interval of a difference lies on one side of 0."""
    if difference.low is None or difference.high is None:
        return False
    return difference.low > 0 or difference.high < 0


def _sections(comparison: Comparison) -> Iterator[Section]:
    yield _warnings(comparison)
    yield _results(comparison)
    yield _differences(comparison)
    yield from curves(comparison)
    yield _made(comparison)


def _warnings(comparison: Comparison) -> Section:
    intro = (
        "A difference of two runs is a difference of the models only if everything else is alike. "
        "Here this is not so:"
        if comparison.warnings
        else "Sampling, budgets, graders, problems and numbers of rollouts are alike in all runs."
    )
    content = (html.bullets(comparison.warnings),) if comparison.warnings else ()
    return Section("alike", "What is not alike", intro, content)


def _results(comparison: Comparison) -> Section:
    """The main table (RLCM Table 1), and the same with intervals."""
    in_full = "".join(map(partial(_with_intervals, comparison), comparison.benchmarks))
    return Section(
        "results",
        "Accuracy and calibration",
        "Share of rollouts that are right (higher is better), positive and expected calibration "
        "error of the confidence at their end (lower is better). Best in bold"
        + (", second best underlined" if len(comparison.names) > 2 else "")
        + "; figures that are the same in print share their rank. A rank does not say how sure it "
        "is: the differences below do.",
        (_main_table(comparison), html.folded("The same with intervals", in_full)),
    )


def _main_table(comparison: Comparison) -> str:
    columns = [(benchmark.title, benchmark.table) for benchmark in comparison.benchmarks]
    if comparison.overall:
        columns.append(("Overall", comparison.overall))
    overall = " Overall: mean of the benchmarks that all runs have." if comparison.overall else ""
    rows = []
    for i, name in enumerate(comparison.names):
        cells = [Cell(title_of(comparison.sources[i]), kind="name")]
        for _, table in columns:
            cells += [
                Cell(cell.text.rstrip(f"{NB}%"), rank=cell.rank) for cell in _places(table[i])
            ]
        rows.append(Row(name, cells))
    return html.grouped_table(
        f"Runs and benchmarks. –: not evaluated.{overall}",
        ["run", "confidence"],
        {title: ["Acc % ↑", "PCE ↓", "ECE ↓"] for title, _ in columns},
        rows,
    )


def _with_intervals(comparison: Comparison, benchmark: BenchmarkComparison) -> str:
    return html.table(
        f"{benchmark.title}, 95 % intervals by resampling problems, of each run alone.",
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
        Cell(share(accuracy.estimate), share_interval(accuracy.estimate), accuracy.rank),
        *(Cell(number(e.estimate), number_interval(e.estimate), e.rank) for e in errors),
    ]


def _differences(comparison: Comparison) -> Section:
    first = comparison.names[0]
    content: list[Plate | str] = []
    if any(d.metrics for benchmark in comparison.benchmarks for d in benchmark.differences):
        content.append(
            Plate(
                "differences",
                partial(figures.draw_differences, comparison),
                Caption(
                    f"Differences to {first}",
                    "Points right of the line are higher than in that run: better for accuracy and "
                    "AUROC, worse for ECE. Bars are 95 % intervals of paired resamples: both runs "
                    "are taken on the same resampled problems, so what makes a problem hard for "
                    "both drops out. A bar that does not cross the line says that the runs differ "
                    "on problems like these. Where nothing differs, "
                    "about one bar of twenty does so by chance.",
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
        f"How much do the others differ from {first}, on the problems that both have?",
        tuple(content),
    )


def _difference_table(benchmark: BenchmarkComparison, first: str) -> str:
    titles = {**TITLES, "accuracy": "accuracy, points"}
    return html.table(
        f"{benchmark.title}: run minus {first}, on the problems that both have, 95 % intervals of "
        "paired resamples. Bold: the interval excludes 0.",
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
        interval = number_interval(estimate, digits).replace("-", "−")
        marked: Rank = "best" if excludes_zero(estimate) else ""
        cells.append(Cell(signed(estimate, digits), interval, marked))
    return cells


def in_points(estimate: Estimate) -> Estimate:
    """A share in percentage points."""
    low, value, high = (
        None if share is None else 100 * share
        for share in (estimate.low, estimate.value, estimate.high)
    )
    return Estimate(value, low, high)


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
        (html.table("Model, engine and settings.", ["", *comparison.names], rows),),
    )


def _plain(comparison: Comparison) -> dict[str, object]:
    """All but the runs' own measures, which stand in their folders."""
    fields = {name: getattr(comparison, name) for name in comparison.__slots__}
    del fields["measures"]
    return fields
