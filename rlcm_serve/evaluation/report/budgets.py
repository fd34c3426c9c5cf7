"""Section: accuracy and confidence of every rollout at a smaller budget (RLCM §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.report_kit.content import Section
from calibration.report_kit.palette import BLUE, GRID, INK
from calibration.report_kit.panels import draw_curve, drawable, legend, percent_axis, tokens_axis
from calibration.report_kit.style import DASH_DOT, DASHES, DOTS, SOLID, Style
from calibration.report_kit.wording import target
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.report import findings
from rlcm_serve.evaluation.report.style import STYLES, row_per_benchmark, title_of
from rlcm_serve.evaluation.report.words import words

_ALPHA_DASHES = (SOLID, DASHES, DOTS, DASH_DOT)
_ALPHA_MARKERS = "osD^vP"


def section(run: RunMeasures) -> Section:
    """Accuracy, ECE, and who has stopped, against the token budget."""
    benchmarks = [b for b in run.benchmarks if len(b.budgets) > 1]  # a curve needs two
    if not benchmarks:
        return words.section("on-the-way", [words.missing("no_budgets")], findings.budgets(run))
    exits = any(at.exited for benchmark in benchmarks for at in benchmark.budgets)
    draw = partial(draw_budgets, benchmarks)
    return words.section(
        "on-the-way",
        [words.plate("budgets", draw, benchmarks=benchmarks, exits=exits)],
        findings.budgets(run),
    )


def draw_budgets(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """A row per benchmark: accuracy, ECE by source, share ended and exited."""
    figure, rows = row_per_benchmark(
        [benchmark.title for benchmark in benchmarks],
        ("accuracy", "ECE", "ended or stopped by then"),
        (2.5, 2.1),
        "budget, reasoning tokens",
    )
    for (accuracy, ece, stopped), benchmark in zip(rows, benchmarks, strict=True):
        tokens_B = [at.tokens for at in benchmark.budgets]
        style = Style(BLUE, "o")
        draw_curve(accuracy, tokens_B, [at.accuracy for at in benchmark.budgets], style, "_title")
        percent_axis(accuracy, "y", 5)
        for found in benchmark.sources:
            estimates = [at.ece[found.source] for at in benchmark.budgets if found.source in at.ece]
            if len(estimates) == len(tokens_B):
                title = title_of(found.source)
                is_own = found is benchmark.sources[0]
                draw_curve(ece, tokens_B, estimates, STYLES[found.source], title, band=is_own)
        _draw_stopped(stopped, benchmark)
        for panel in (accuracy, ece, stopped):
            tokens_axis(panel, 4)
            panel.set_ylim(bottom=0)
        accuracy.set_ylim(stopped.get_ylim())
    legend(figure)
    return figure


def _draw_stopped(panel: Axes, benchmark: BenchmarkMeasures) -> None:
    """Share that ended by itself as an area; shares that certified policies stopped as lines."""
    tokens_B = [at.tokens for at in benchmark.budgets]
    ended_B = [at.ended for at in benchmark.budgets]
    panel.fill_between(tokens_B, ended_B, color=GRID, linewidth=0, label="ended by itself")
    alphas = sorted({alpha for at in benchmark.budgets for alpha in at.exited}, key=float)
    for place, alpha in enumerate(alphas):
        panel.plot(
            tokens_B,
            drawable(at.exited.get(alpha) for at in benchmark.budgets),
            color=INK,
            linestyle=_ALPHA_DASHES[place % len(_ALPHA_DASHES)],
            marker=_ALPHA_MARKERS[place % len(_ALPHA_MARKERS)],
            markersize=4,
            markevery=max(1, len(tokens_B) // 10),
            label=f"stopped at {target(float(alpha))}",
        )
    panel.set_ylim(0, 1.03)
    percent_axis(panel, "y", 5)
