"""Figures of several runs: differences, curves by budget and by votes, markers."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.report_kit.palette import INK
from calibration.report_kit.panels import (
    draw_curve,
    legend,
    panels,
    percent_axis,
    rows_of_panels,
    tokens_axis,
)
from calibration.report_kit.style import Style
from rlcm_serve.evaluation.compare.base import Comparison, benchmark_of, source_of
from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures
from rlcm_serve.evaluation.report.style import RUNS
from rlcm_serve.evaluation.report.verbalized import CATEGORY_TITLES

_SHOWN = (("accuracy", "accuracy, points"), ("ece", "ECE"), ("auroc", "AUROC"))
"""Metrics whose differences are drawn; the table has all."""


def style_of(place: int) -> Style:
    """Style of the run at this place."""
    return RUNS[place % len(RUNS)]


def of_run(
    comparison: Comparison, place: int, names: Sequence[str]
) -> list[BenchmarkMeasures | None]:
    """A run's benchmarks of these names."""
    return [benchmark_of(comparison.measures[place], name) for name in names]


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


def draw_budgets(comparison: Comparison, names: Sequence[str]) -> Figure:
    """Accuracy and ECE against the budget (RLCM §4.3): a row per benchmark, a line per run."""
    figure, rows = rows_of_panels(len(names), 2, 2.6 if len(names) == 1 else 2.1)
    for place, run in enumerate(comparison.names):
        style, source = style_of(place), comparison.sources[place]
        for (accuracy, ece), benchmark in zip(rows, of_run(comparison, place, names), strict=True):
            if benchmark is None or not benchmark.budgets:
                continue
            tokens_B = [at.tokens for at in benchmark.budgets]
            draw_curve(accuracy, tokens_B, [at.accuracy for at in benchmark.budgets], style, run)
            known = [at.ece.get(source, Estimate(None)) for at in benchmark.budgets]
            draw_curve(ece, tokens_B, known, style, run)
    _finish(comparison, rows, names, ("accuracy", "ECE"))
    for accuracy, ece in rows:
        percent_axis(accuracy, "y", 5)
        for panel in (accuracy, ece):
            panel.set_ylim(bottom=0)
            tokens_axis(panel, 5)
    figure.supxlabel("budget, reasoning tokens")
    legend(figure)
    return figure


def draw_votes(comparison: Comparison, names: Sequence[str]) -> Figure:
    """Majority, weighted vote and oracle against n (RLCM §5.2): a row per benchmark."""
    fields = ("majority", "confidence", "oracle")
    figure, rows = rows_of_panels(len(names), len(fields), 2.5 if len(names) == 1 else 2.1)
    for place, run in enumerate(comparison.names):
        source = comparison.sources[place]
        for row, benchmark in zip(rows, of_run(comparison, place, names), strict=True):
            found = source_of(benchmark, source) if benchmark else None
            if found is None:
                continue
            for panel, field in zip(row, fields, strict=True):
                draw_curve(panel, found.votes.n, getattr(found.votes, field), style_of(place), run)
    _finish(comparison, rows, names, ("majority", "weighted by confidence", "oracle"))
    for row in rows:
        low = min(panel.get_ylim()[0] for panel in row)
        high = max(panel.get_ylim()[1] for panel in row)
        for panel in row:
            panel.set_ylim(low, min(high, 1.02))
            percent_axis(panel, "y", 5)
            panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.supxlabel("rollouts that vote, n")
    legend(figure)
    return figure


def draw_markers(comparison: Comparison, names: Sequence[str]) -> Figure:
    """Categories of markers per 1,000 tokens and per rollout: a row per benchmark."""
    n_runs = len(comparison.names)
    figure, rows = rows_of_panels(len(names), 2, 0.5 + 3 * (0.12 + 0.14 * n_runs))
    for place, run in enumerate(comparison.names):
        for row, benchmark in zip(rows, of_run(comparison, place, names), strict=True):
            for marker in benchmark.categories if benchmark else ():
                at = list(Category).index(Category(marker.category))
                offset = 0.6 * ((place + 0.5) / n_runs - 0.5)
                for panel, per in zip(row, ("per_1000_tokens", "per_rollout"), strict=True):
                    _draw_interval(panel, getattr(marker, per), at + offset, style_of(place), run)
    _finish(comparison, rows, names, ("per 1,000 tokens", "per rollout"))
    for left, right in rows:
        left.set_yticks(range(len(Category)), [CATEGORY_TITLES[category] for category in Category])
        right.set_yticks(range(len(Category)), [""] * len(Category))
        for panel in (left, right):
            panel.set_ylim(len(Category) - 0.5, -0.5)
            panel.set_xlim(left=0)
    legend(figure)
    return figure


def _finish(
    comparison: Comparison,
    rows: Sequence[Sequence[Axes]],
    names: Sequence[str],
    titles: Sequence[str],
) -> None:
    """Titles over the first row, benchmarks beside every row."""
    of = {benchmark.name: benchmark.title for benchmark in comparison.benchmarks}
    for panel, title in zip(rows[0], titles, strict=True):
        panel.set_title(title)
    if len(names) > 1:
        for row, name in zip(rows, names, strict=True):
            row[0].set_ylabel(of[name])


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
