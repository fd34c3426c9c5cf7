"""Figures of a confidence: reliability, distribution, risk-coverage, ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.report_kit.palette import BLUE, GRID, INK, MUTED, ORANGE, PAPER
from calibration.report_kit.panels import draw_bars, legend, one_scale, panels, percent_axis
from calibration.report_kit.style import DASHES, DOTS
from calibration.report_kit.wording import number, number_in_full, rate
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, SourceMeasures
from rlcm_serve.evaluation.report.style import STYLES, panel_per_benchmark, title_of

FOOT = 0.22
"""Height of the highest bar of a reliability diagram, as a share of its panel's height."""
FROM = 0.1
"""Share answered from which a risk-coverage curve is drawn."""
_QUARTERS = [0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"]
"""Ticks of a confidence, and their labels."""
_RANKS = {
    "auroc": ("over all rollouts", -0.13, PAPER),
    "within_auroc": ("within each question", 0.13, BLUE),
}
"""Label, offset and fill of each metric of a ranking."""


def draw_reliability(benchmark: BenchmarkMeasures) -> Figure:
    """Share right against confidence, a panel per source; at the foot the number of rollouts."""
    columns = _columns(benchmark)
    return _per_source(benchmark, _draw_bins, 2.05 if columns > 3 else 2.5, "share right", 18)


def draw_distributions(benchmark: BenchmarkMeasures) -> Figure:
    """Rollouts by confidence: the right ones upwards, the wrong ones downwards (RLCM App. D)."""
    height = 1.95 if _columns(benchmark) > 2 else 2.6
    return _per_source(benchmark, draw_distribution, height, "share of the rollouts")


def _per_source(
    benchmark: BenchmarkMeasures,
    draw: Callable[[Axes, SourceMeasures], None],
    height: float,
    y: str,
    pad: float | None = None,
) -> Figure:
    """A panel per source; `pad` is the room below its title, in points."""
    figure, axes = panels(len(benchmark.sources), _columns(benchmark), height)
    for panel, found in zip(axes, benchmark.sources, strict=True):
        draw(panel, found)
        panel.set_title(title_of(found.source), fontsize=8.5, pad=pad)
    one_scale(axes)
    figure.supxlabel("confidence")
    figure.supylabel(y)
    legend(figure)
    return figure


def draw_distribution(panel: Axes, found: SourceMeasures) -> None:
    """One panel of it, without its title."""
    edges = np.linspace(0, 1, len(found.right) + 1)
    n_rollouts = max(sum(found.right) + sum(found.wrong), 1)
    for counts, sign, color, label in (
        (found.right, 1, BLUE, "right"),
        (found.wrong, -1, ORANGE, "wrong"),
    ):
        share = sign * np.array(counts) / n_rollouts
        panel.stairs(share, edges, fill=True, color=color, label=label)
    panel.axhline(0, color=INK, linewidth=0.8)
    panel.axvline(found.mean, color=INK, linewidth=1.1, linestyle=DASHES, label="mean")
    panel.axvline(found.median, color=INK, linewidth=1.4, linestyle=DOTS, label="median")
    panel.set_xlim(0, 1)
    percent_axis(panel, "y", 4)
    panel.yaxis.set_major_formatter(lambda share, _: rate(abs(round(share, 9))))
    panel.set_xticks(*_QUARTERS)


def draw_coverage(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """Share wrong among the most confident rollouts against their share, a line per source."""
    figure, axes, columns = panel_per_benchmark(
        [benchmark.title for benchmark in benchmarks],
        (3.4, 2.5),
        "share answered, most confident first",
        "share wrong of the answers",
    )
    for panel, benchmark in zip(axes, benchmarks, strict=True):
        # The run's own source comes first, and is drawn over the others.
        for place, found in enumerate(benchmark.sources):
            label = title_of(found.source)
            if len(benchmarks) == 1:
                label += f" ({number(found.metrics['aurc'])})"
            _draw_coverage(panel, found, label, 3.0 - 0.1 * place, band=place == 0)
        panel.set_xlim(0, 1.02)
        panel.set_ylim(bottom=0)
        percent_axis(panel, "x", 5 if columns < 3 else 2)
        percent_axis(panel, "y", 5)
    legend(figure)
    return figure


def _draw_coverage(
    panel: Axes, found: SourceMeasures, label: str, zorder: float, *, band: bool
) -> None:
    """One source from `FROM` on: below, a few rollouts decide."""
    first = next(at for at, coverage in enumerate(found.coverage) if coverage >= FROM)
    coverage, risk = found.coverage[first:], found.risk[first:]
    marked = _spread(coverage, list(STYLES).index(found.source))
    panel.plot(
        [FROM, *coverage],
        [risk[0], *risk],
        drawstyle="steps-pre",
        label=label,
        markevery=marked,
        zorder=zorder,
        **STYLES[found.source].line(),
    )
    color = STYLES[found.source].color
    if found.risk_interval and not band:
        bars = [Estimate(risk[at - 1], *found.risk_interval[first:][at - 1]) for at in marked]
        draw_bars(panel, [coverage[at - 1] for at in marked], bars, color, zorder - 1)
    if band and found.risk_interval:
        low, high = zip(*found.risk_interval[first:], strict=True)
        at = [FROM, *coverage], [low[0], *low], [high[0], *high]
        panel.fill_between(*at, step="pre", color=color, alpha=0.14, linewidth=0)


def draw_ranking(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """AUROC over all rollouts, and within each question, with intervals."""
    most = max(len(benchmark.sources) for benchmark in benchmarks)
    columns = min(len(benchmarks), 2)
    figure, axes = panels(len(benchmarks), columns, 0.75 + 0.3 * most)
    estimates = [found.metrics[name] for b in benchmarks for found in b.sources for name in _RANKS]
    bounds = [bound for e in estimates for bound in (e.value, e.low) if bound is not None]
    left = max(-0.02, min([0.46, *(bound - 0.02 for bound in bounds)]))
    alike = len({tuple(s.source for s in benchmark.sources) for benchmark in benchmarks}) == 1
    for place, (panel, benchmark) in enumerate(zip(axes, benchmarks, strict=True)):
        panel.axvline(0.5, color=INK, linewidth=1, linestyle=DASHES, label="chance")
        for row, found in enumerate(benchmark.sources):
            _draw_rank(panel, found, row)
        panel.set_yticks(
            range(len(benchmark.sources)), [title_of(s.source) for s in benchmark.sources]
        )
        if place % columns and alike:
            panel.tick_params(labelleft=False)
        panel.set_ylim(len(benchmark.sources) - 0.4, -0.6)
        panel.set_title("" if len(benchmarks) == 1 else benchmark.title)
        panel.xaxis.set_major_locator(MaxNLocator(6))
        panel.set_xlim(left, 1.02)
    figure.supxlabel("AUROC")
    legend(figure)
    return figure


def _draw_bins(panel: Axes, found: SourceMeasures) -> None:
    """Accuracy by confidence, gaps as lines; at the foot the number of rollouts of each bin.

    The ECE is between title and panel.
    """
    panel.set(xlim=(-0.03, 1.03), ylim=(0, 1.04))
    panel.set_xticks(*_QUARTERS)
    panel.set_yticks(*_QUARTERS)
    most = max(b.count for b in found.bins)
    panel.bar(
        [b.low for b in found.bins],
        [FOOT * b.count / most for b in found.bins],
        [b.high - b.low for b in found.bins],
        align="edge",
        color=GRID,
        zorder=0.5,
        label="rollouts (own scale)",
    )
    panel.plot([0, 1], [0, 1], color=INK, linewidth=1, label="accuracy = confidence")
    panel.vlines(
        [b.confidence for b in found.bins],
        [min(b.accuracy, b.confidence) for b in found.bins],
        [max(b.accuracy, b.confidence) for b in found.bins],
        color=MUTED,
        linewidth=1,
        linestyle=DOTS,
    )
    for b in found.bins:
        if b.accuracy_low is not None and b.accuracy_high is not None:
            color = ORANGE if b.confidence > b.accuracy else BLUE
            panel.vlines(b.confidence, b.accuracy_low, b.accuracy_high, color=color, alpha=0.45)
    for label, marker, color, over in (
        ("overconfident", "s", ORANGE, True),
        ("underconfident", "o", BLUE, False),
    ):
        bins = [b for b in found.bins if (b.confidence > b.accuracy) == over]
        if bins:
            panel.plot(
                [b.confidence for b in bins],
                [b.accuracy for b in bins],
                marker,
                color=color,
                markersize=4,
                label=label,
                zorder=3,
            )
    ece = f"ECE {number_in_full(found.metrics['ece'])}"
    panel.text(0, 1.07, ece, transform=panel.transAxes, fontsize=7.2, color=MUTED)


def _draw_rank(panel: Axes, found: SourceMeasures, row: int) -> None:
    for name, (label, offset, face) in _RANKS.items():
        estimate = found.metrics[name]
        if estimate.value is None:
            continue
        if estimate.low is not None and estimate.high is not None:
            panel.hlines(row + offset, estimate.low, min(estimate.high, 1), color=BLUE)
        panel.plot(estimate.value, row + offset, "o", color=BLUE, markerfacecolor=face, label=label)


def _columns(benchmark: BenchmarkMeasures) -> int:
    n = len(benchmark.sources)
    return 4 if n > 6 or n == 4 else 3


def _spread(x: Sequence[float], first: int) -> list[int]:
    """Points of a line for its markers, about five along x, others for each line."""
    at = 0.12 + 0.024 * first + np.arange(5) * 0.19
    index = np.searchsorted(np.array(x), at) + 1
    return sorted({int(i) for i in index if i <= len(x)})
