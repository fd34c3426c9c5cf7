"""Section: how often the reasoning expresses doubt in words (RLCM App. E)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.report_kit.content import Folded, Part, Plate, Section
from calibration.report_kit.palette import BLUE, GREEN, ORANGE
from calibration.report_kit.panels import panels
from calibration.report_kit.style import WIDTH
from calibration.report_kit.tables import Cell, Row, Table, number_cell
from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Marker, RunMeasures
from rlcm_serve.evaluation.report import findings
from rlcm_serve.evaluation.report.style import CATEGORY_TITLES
from rlcm_serve.evaluation.report.words import plate_of, words

_STYLES: dict[str, tuple[str, str]] = {
    Category.SELF_CORRECTION: (BLUE, "o"),
    Category.HEDGING: (ORANGE, "s"),
    Category.KNOWLEDGE_GAP: (GREEN, "^"),
}
_LINE = 0.185
"""Height of a phrase's line, inches."""


def section(run: RunMeasures) -> Section:
    """Markers by category, and phrase by phrase."""
    return words.section("doubt", tuple(_content(run)), findings.doubt(run))


def _content(run: RunMeasures) -> Iterator[Part]:
    benchmarks = [benchmark for benchmark in run.benchmarks if benchmark.categories]
    if not benchmarks:
        yield words.missing("no_texts")
        return
    if not any(marker.per_rollout.value for b in benchmarks for marker in b.categories):
        yield words.missing("no_phrase")
        return
    yield words.plate("markers", partial(draw_categories, benchmarks), benchmarks=benchmarks)
    for benchmark in benchmarks:
        if any(marker.per_rollout.value for marker in benchmark.indicators):
            yield _indicators(run, benchmark)
            yield Folded(f"{benchmark.title}: every phrase in numbers", [_table(benchmark)])


def draw_categories(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """Each category per rollout and per 1,000 tokens, a line per benchmark."""
    lines = [
        (marker, "" if len(benchmarks) == 1 else f", {benchmark.title}")
        for category in Category
        for benchmark in benchmarks
        for marker in benchmark.categories
        if marker.category == category
    ]
    markers = [marker for marker, _ in lines]
    figure, (left, right) = panels(2, 2, 0.35 + 0.27 * len(lines))
    _draw_markers(left, markers, [CATEGORY_TITLES[m.category] + of for m, of in lines])
    _draw_markers(right, markers, [""] * len(lines), "per_1000_tokens")
    left.set_title("per rollout")
    right.set_title("per 1,000 tokens")
    return figure


def draw_indicators(benchmark: BenchmarkMeasures) -> Figure:
    """Each phrase that occurs, per rollout, the most frequent first within its category."""
    left = [_written(benchmark, c) for c in (Category.SELF_CORRECTION, Category.KNOWLEDGE_GAP)]
    right = [_written(benchmark, Category.HEDGING)]
    height = max(sum(map(len, left)) + 3.5, len(right[0]) + 1.5)
    figure = Figure(figsize=(WIDTH, 0.6 + _LINE * height), layout="constrained")
    grid = figure.add_gridspec(1, 2)
    for column, groups in enumerate((left, right)):
        groups = [group for group in groups if group]
        if not groups:
            continue
        cells = grid[column].subgridspec(
            len(groups), 1, height_ratios=[len(group) + 1.2 for group in groups]
        )
        for place, group in enumerate(groups):
            panel = figure.add_subplot(cells[place])
            _draw_markers(panel, group, [marker.name for marker in group])
            panel.set_title(CATEGORY_TITLES[group[0].category])
            panel.xaxis.set_major_locator(MaxNLocator(5))
    figure.supxlabel("count per rollout")
    return figure


def _draw_markers(
    panel: Axes, markers: Sequence[Marker], names: Sequence[str], per: str = "per_rollout"
) -> None:
    """A line per marker: its count and the interval."""
    for row, marker in enumerate(markers):
        color, shape = _STYLES[marker.category]
        estimate = getattr(marker, per)
        if estimate.value is None:
            continue
        panel.hlines(row, 0, estimate.value, color=color, linewidth=0.7, alpha=0.5)
        if estimate.low is not None and estimate.high is not None:
            panel.hlines(row, estimate.low, estimate.high, color=color, linewidth=1.8)
        panel.plot(estimate.value, row, shape, color=color, markersize=5, clip_on=False)
    panel.set_yticks(range(len(markers)), names)
    panel.set_ylim(len(markers) - 0.4, -0.6)
    panel.set_xlim(left=0)


def _by_frequency(markers: Sequence[Marker]) -> list[Marker]:
    return sorted(markers, key=lambda marker: -(marker.per_rollout.value or 0))


def _written(benchmark: BenchmarkMeasures, category: Category) -> list[Marker]:
    """The category's phrases that occur, the most frequent first."""
    markers = _by_frequency(benchmark.indicators)
    return [m for m in markers if m.category == category and m.per_rollout.value]


def _indicators(run: RunMeasures, benchmark: BenchmarkMeasures) -> Plate:
    return plate_of(
        run,
        benchmark,
        "indicators",
        partial(draw_indicators, benchmark),
        silent=[f"“{m.name}”" for m in benchmark.indicators if not m.per_rollout.value],
        most=_by_frequency(benchmark.indicators)[:5],
    )


def _table(benchmark: BenchmarkMeasures) -> Table:
    rows = [
        Row(
            marker.name,
            [
                Cell(CATEGORY_TITLES[marker.category], kind="name"),
                number_cell(marker.per_rollout),
                number_cell(marker.per_1000_tokens),
            ],
        )
        for marker in benchmark.indicators
    ]
    head = ["phrase", "category", "per rollout", "per 1,000 tokens"]
    return Table(words("phrases", benchmark=benchmark), head, rows)
