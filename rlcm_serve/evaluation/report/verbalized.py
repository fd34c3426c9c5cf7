"""Section: how often the reasoning expresses doubt in words (RLCM App. E)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.report_kit.content import Caption, Folded, Part, Plate, Section, Text
from calibration.report_kit.palette import BLUE, GREEN, ORANGE
from calibration.report_kit.panels import panels
from calibration.report_kit.style import WIDTH
from calibration.report_kit.tables import Cell, Row, Table, number_cell
from calibration.report_kit.wording import listed, number
from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Marker, RunMeasures
from rlcm_serve.evaluation.report.benchmarks import of_benchmark, per_benchmark

CATEGORY_TITLES = {
    Category.SELF_CORRECTION: "self-correction",
    Category.HEDGING: "confidence hedging",
    Category.KNOWLEDGE_GAP: "knowledge gap",
}
STYLES = {
    Category.SELF_CORRECTION: (BLUE, "o"),
    Category.HEDGING: (ORANGE, "s"),
    Category.KNOWLEDGE_GAP: (GREEN, "^"),
}
MOST_LISTED = 12
"""A caption names at most this many phrases."""
_LINE = 0.185
"""Height of a phrase's line, inches."""


def section(run: RunMeasures) -> Section:
    """Markers by category, and phrase by phrase."""
    return Section(
        "doubt",
        "Doubt in the reasoning",
        "How often does the reasoning itself express doubt? Three kinds of phrases are counted: "
        "self-correction (“wait”), confidence hedging (“perhaps”) and knowledge gaps (“I don't "
        "know”).",
        tuple(_content(run)),
    )


def _content(run: RunMeasures) -> Iterator[Part]:
    benchmarks = [benchmark for benchmark in run.benchmarks if benchmark.categories]
    if not benchmarks:
        yield Text("The texts of the rollouts were not kept, so no phrases were counted.", "empty")
        return
    if not any(marker.per_rollout.value for b in benchmarks for marker in b.categories):
        yield Text(
            "None of the 48 phrases occurs in any rollout. This means nothing for a model that "
            "reasons in another language or in a notation of its own.",
            "empty",
        )
        return
    yield Plate("markers", partial(draw_categories, benchmarks), _of_categories(benchmarks))
    for benchmark in benchmarks:
        if any(marker.per_rollout.value for marker in benchmark.indicators):
            yield Plate(
                per_benchmark("indicators", run, benchmark),
                partial(draw_indicators, benchmark),
                _of_indicators(run, benchmark),
            )
            yield Folded(f"{benchmark.title}: every phrase in numbers", [_table(benchmark)])


def draw_categories(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """Each category per rollout and per 1,000 tokens, a line per benchmark."""
    lines = [
        (marker, benchmark)
        for category in Category
        for benchmark in benchmarks
        for marker in benchmark.categories
        if marker.category == category
    ]
    figure, axes = panels(2, 2, 0.35 + 0.27 * len(lines))
    for panel, per, title in zip(
        axes, ("per_rollout", "per_1000_tokens"), ("per rollout", "per 1,000 tokens"), strict=True
    ):
        for row, (marker, _) in enumerate(lines):
            _draw_marker(panel, marker, row, per)
        panel.set_title(title)
        panel.set_ylim(len(lines) - 0.4, -0.6)
        panel.set_xlim(left=0)
    names = [
        CATEGORY_TITLES[Category(marker.category)]
        + ("" if len(benchmarks) == 1 else f", {benchmark.title}")
        for marker, benchmark in lines
    ]
    axes[0].set_yticks(range(len(lines)), names)
    axes[1].set_yticks(range(len(lines)), [""] * len(lines))
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
            _draw_phrases(figure.add_subplot(cells[place]), group)
    figure.supxlabel("count per rollout")
    return figure


def _draw_phrases(panel: Axes, group: Sequence[Marker]) -> None:
    for row, marker in enumerate(group):
        _draw_marker(panel, marker, row, "per_rollout")
    panel.set_yticks(range(len(group)), [marker.name for marker in group])
    panel.set_ylim(len(group) - 0.4, -0.6)
    panel.set_xlim(left=0)
    panel.set_title(CATEGORY_TITLES[Category(group[0].category)])
    panel.xaxis.set_major_locator(MaxNLocator(5))


def _draw_marker(panel: Axes, marker: Marker, row: int, per: str) -> None:
    color, shape = STYLES[Category(marker.category)]
    estimate = getattr(marker, per)
    if estimate.value is None:
        return
    panel.hlines(row, 0, estimate.value, color=color, linewidth=0.7, alpha=0.5)
    if estimate.low is not None and estimate.high is not None:
        panel.hlines(row, estimate.low, estimate.high, color=color, linewidth=1.8)
    panel.plot(estimate.value, row, shape, color=color, markersize=5, clip_on=False)


def _written(benchmark: BenchmarkMeasures, category: Category) -> list[Marker]:
    """The category's phrases that occur, the most frequent first."""
    written = [m for m in benchmark.indicators if m.category == category and m.per_rollout.value]
    return sorted(written, key=lambda marker: -(marker.per_rollout.value or 0))


def _of_categories(benchmarks: Sequence[BenchmarkMeasures]) -> Caption:
    said = "; ".join(
        f"{benchmark.title}: "
        + ", ".join(
            f"{CATEGORY_TITLES[Category(marker.category)]} {number(marker.per_rollout, 2)} per "
            f"rollout and {number(marker.per_1000_tokens, 2)} per 1,000 tokens"
            for marker in benchmark.categories
        )
        for benchmark in benchmarks
    )
    return Caption(
        "Markers by category",
        "Counts of the phrases of each category in the reasoning, with 95% intervals by resampling "
        "problems. A model that writes more has more phrases per rollout; counts per 1,000 tokens "
        "correct for that. Phrases are matched as words, whatever their meaning in context: the "
        "counts describe a style, not the uncertainty of the model.",
        f"Epistemic markers. {said}.",
    )


def _of_indicators(run: RunMeasures, benchmark: BenchmarkMeasures) -> Caption:
    silent = [m.name for m in benchmark.indicators if not m.per_rollout.value]
    never = ""
    if len(silent) > MOST_LISTED:
        never = f" {len(silent)} phrases are never written."
    elif silent:
        never = f" Never written: {listed([f'“{name}”' for name in silent])}."
    most = sorted(benchmark.indicators, key=lambda marker: -(marker.per_rollout.value or 0))[:5]
    return Caption(
        of_benchmark("Markers by phrase", run, benchmark),
        "Count per rollout with 95% intervals by resampling problems, the most frequent phrase "
        "first; every panel has its own scale. If several phrases begin at the same word, only the "
        f"longest is counted; no word counts twice.{never}",
        f"The most frequent of {len(benchmark.indicators)} phrases on {benchmark.title}: "
        + ", ".join(f"“{m.name}” {number(m.per_rollout, 2)} per rollout" for m in most)
        + ".",
    )


def _table(benchmark: BenchmarkMeasures) -> Table:
    rows = [
        Row(
            marker.name,
            [
                Cell(CATEGORY_TITLES[Category(marker.category)], kind="name"),
                number_cell(marker.per_rollout),
                number_cell(marker.per_1000_tokens),
            ],
        )
        for marker in benchmark.indicators
    ]
    return Table(
        f"{benchmark.title}: every phrase of the list, with 95% intervals by resampling problems.",
        ["phrase", "category", "per rollout", "per 1,000 tokens"],
        rows,
    )
