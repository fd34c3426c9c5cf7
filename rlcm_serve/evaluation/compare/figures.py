"""Figures of several runs: differences, curves by budget and by votes, markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.report_kit.palette import INK
from calibration.report_kit.panels import draw_curve, legend, panels, percent_axis, tokens_axis
from calibration.report_kit.style import Style
from rlcm_serve.evaluation.compare.base import BenchmarkComparison, Comparison, RunOnBenchmark
from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.report.style import CATEGORY_TITLES, RUNS, Heights, row_per_benchmark

_SHOWN = (("accuracy", "accuracy, points"), ("ece", "ECE"), ("auroc", "AUROC"))
"""Metrics whose differences are drawn; the table has all."""

Read = Callable[[RunOnBenchmark], Sequence[Estimate]]
"""The points of a run's curve."""


def draw_differences(comparison: Comparison) -> Figure:
    """Every run minus the first, with paired intervals: a panel per metric."""
    benchmarks = [b for b in comparison.benchmarks if any(d.metrics for d in b.differences)]
    n_others = len(comparison.names) - 1
    height = 0.6 + len(benchmarks) * (0.16 + 0.16 * n_others)
    figure, axes = panels(len(_SHOWN), len(_SHOWN), height)
    for place, (panel, (metric, title)) in enumerate(zip(axes, _SHOWN, strict=True)):
        panel.axvline(0, color=INK, linewidth=1)
        for row, benchmark in enumerate(benchmarks):
            for difference in benchmark.differences:
                run = comparison.names.index(difference.run)
                offset = 0.62 * ((run - 0.5) / n_others - 0.5)
                estimate = difference.metrics.get(metric, Estimate(None))
                scale = 100 if metric == "accuracy" else 1
                _draw_interval(panel, estimate, row + offset, style_of(run), difference.run, scale)
        panel.set_yticks(
            range(len(benchmarks)), [b.title for b in benchmarks] if place == 0 else []
        )
        panel.set_ylim(len(benchmarks) - 0.5, -0.5)
        panel.set_title(title)
        panel.xaxis.set_major_locator(MaxNLocator(4))
    figure.supxlabel(f"difference to {comparison.names[0]}")
    legend(figure)
    return figure


def draw_budgets(comparison: Comparison, benchmarks: Sequence[BenchmarkComparison]) -> Figure:
    """Accuracy and ECE against the budget (RLCM §4.3): a row per benchmark, a line per run."""
    columns: dict[str, Read] = {
        "accuracy": lambda on: [at.accuracy for at in on.benchmark.budgets],
        "ECE": lambda on: [at.ece.get(on.source, Estimate(None)) for at in on.benchmark.budgets],
    }
    figure, rows = _draw_curves(
        comparison,
        benchmarks,
        columns,
        lambda on: [at.tokens for at in on.benchmark.budgets],
        "budget, reasoning tokens",
        (2.6, 2.1),
    )
    for accuracy, ece in rows:
        percent_axis(accuracy, "y", 5)
        for panel in (accuracy, ece):
            panel.set_ylim(bottom=0)
            tokens_axis(panel, 5)
    return figure


def draw_votes(comparison: Comparison, benchmarks: Sequence[BenchmarkComparison]) -> Figure:
    """Majority, weighted vote and oracle against n (RLCM §5.2): a row per benchmark."""
    columns: dict[str, Read] = {
        "majority": lambda on: on.votes.majority if on.votes else (),
        "weighted by confidence": lambda on: on.votes.confidence if on.votes else (),
        "oracle": lambda on: on.votes.oracle if on.votes else (),
    }
    figure, rows = _draw_curves(
        comparison,
        benchmarks,
        columns,
        lambda on: on.votes.n if on.votes else (),
        "rollouts that vote, n",
        (2.5, 2.1),
    )
    for row in rows:
        low = min(panel.get_ylim()[0] for panel in row)
        high = max(panel.get_ylim()[1] for panel in row)
        for panel in row:
            panel.set_ylim(low, min(high, 1.02))
            percent_axis(panel, "y", 5)
            panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def draw_markers(comparison: Comparison, benchmarks: Sequence[BenchmarkComparison]) -> Figure:
    """Categories of markers per 1,000 tokens and per rollout: a row per benchmark."""
    n_runs = len(comparison.names)
    height = 0.5 + 3 * (0.12 + 0.14 * n_runs)
    titles = [benchmark.title for benchmark in benchmarks]
    columns = ("per 1,000 tokens", "per rollout")
    figure, rows = row_per_benchmark(titles, columns, (height, height))
    for row, benchmark in zip(rows, benchmarks, strict=True):
        for on in comparison.on(benchmark):
            style, offset = style_of(on.place), 0.6 * ((on.place + 0.5) / n_runs - 0.5)
            for marker in on.benchmark.categories:
                y = list(Category).index(Category(marker.category)) + offset
                for panel, per in zip(row, ("per_1000_tokens", "per_rollout"), strict=True):
                    _draw_interval(panel, getattr(marker, per), y, style, on.run)
        names = list(CATEGORY_TITLES.values())
        for panel, labels in zip(row, (names, [""] * len(names)), strict=True):
            panel.set_yticks(range(len(names)), labels)
            panel.set_ylim(len(names) - 0.5, -0.5)
            panel.set_xlim(left=0)
    legend(figure)
    return figure


def style_of(place: int) -> Style:
    """Style of the run at this place."""
    return RUNS[place % len(RUNS)]


def _draw_curves(
    comparison: Comparison,
    benchmarks: Sequence[BenchmarkComparison],
    columns: Mapping[str, Read],
    points: Callable[[RunOnBenchmark], Sequence[float]],
    x: str,
    heights: Heights,
) -> tuple[Figure, list[list[Axes]]]:
    """A row per benchmark, a line per run that has any points there."""
    titles = [benchmark.title for benchmark in benchmarks]
    figure, rows = row_per_benchmark(titles, list(columns), heights, x)
    for row, benchmark in zip(rows, benchmarks, strict=True):
        for on in comparison.on(benchmark):
            for panel, read in zip(row, columns.values(), strict=True):
                if points(on):
                    draw_curve(panel, points(on), read(on), style_of(on.place), on.run)
    legend(figure)
    return figure, rows


def _draw_interval(
    panel: Axes, estimate: Estimate, y: float, style: Style, label: str, scale: float = 1
) -> None:
    if estimate.value is None:
        return
    if estimate.low is not None and estimate.high is not None:
        panel.hlines(y, scale * estimate.low, scale * estimate.high, color=style.color)
    panel.plot(
        scale * estimate.value, y, style.marker, color=style.color, markersize=5, label=label
    )
