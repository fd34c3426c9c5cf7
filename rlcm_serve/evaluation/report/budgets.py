"""Section: accuracy and confidence of every rollout at a smaller budget (RLCM §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.report_kit.content import Caption, Part, Plate, Section, Text
from calibration.report_kit.palette import BLUE, GRID, INK
from calibration.report_kit.panels import (
    draw_curve,
    drawable,
    legend,
    percent_axis,
    rows_of_panels,
    tokens_axis,
)
from calibration.report_kit.style import DASH_DOT, DASHES, DOTS, SOLID, Style
from calibration.report_kit.wording import number, percent, share, target
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.report.style import STYLES, title_of

_ALPHA_DASHES = (SOLID, DASHES, DOTS, DASH_DOT)
_ALPHA_MARKERS = "osD^vP"
SMALLEST = 2
"""Budgets that a curve needs."""


def section(run: RunMeasures) -> Section:
    """Accuracy, ECE, and who has stopped, against the token budget."""
    benchmarks = [b for b in run.benchmarks if len(b.budgets) >= SMALLEST]
    content: Part = Text(
        "Rollouts were read at fewer than two budgets, so there is no curve. To force answers on "
        "the way, record with --budgets smaller than the reasoning budget.",
        "empty",
    )
    if benchmarks:
        content = Plate("budgets", partial(draw_budgets, benchmarks), _caption(benchmarks))
    return Section(
        "on-the-way",
        "Answers on the way",
        "How accurate are answers before the model has finished thinking, and does its confidence "
        "show it? Every rollout is cut at each budget and forced to answer; a rollout that ended "
        "earlier keeps its own answer and confidence.",
        (content,),
    )


def draw_budgets(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """A row per benchmark: accuracy, ECE by source, share ended and exited."""
    figure, rows = rows_of_panels(len(benchmarks), 3, 2.5 if len(benchmarks) == 1 else 2.1)
    for (accuracy, ece, stopped), benchmark in zip(rows, benchmarks, strict=True):
        tokens_B = [at.tokens for at in benchmark.budgets]
        style = Style(BLUE, "o")
        draw_curve(accuracy, tokens_B, [at.accuracy for at in benchmark.budgets], style, "_title")
        percent_axis(accuracy, "y", 5)
        for found in benchmark.sources:
            estimates = [at.ece[found.source] for at in benchmark.budgets if found.source in at.ece]
            if len(estimates) == len(tokens_B):
                title = title_of(found.source)
                draw_curve(ece, tokens_B, estimates, STYLES[found.source], title, band=False)
        _draw_stopped(stopped, benchmark)
        for panel in (accuracy, ece, stopped):
            tokens_axis(panel, 4)
            panel.set_ylim(bottom=0)
        if len(benchmarks) > 1:
            accuracy.set_ylabel(benchmark.title)
    for panel, title in zip(rows[0], ("accuracy", "ECE", "ended or stopped by then"), strict=True):
        panel.set_title(title)
    figure.supxlabel("budget, reasoning tokens")
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


def _caption(benchmarks: Sequence[BenchmarkMeasures]) -> Caption:
    said = []
    for benchmark in benchmarks:
        first, last = benchmark.budgets[0], benchmark.budgets[-1]
        said.append(
            f"{benchmark.title}: from {share(first.accuracy)} right at {first.tokens:,} tokens to "
            f"{share(last.accuracy)} at {last.tokens:,}, when {percent(last.ended)} have ended"
            + "".join(
                f"; ECE of {title_of(source)} from {number(estimate)} to {number(last.ece[source])}"
                for source, estimate in list(first.ece.items())[:1]
                if source in last.ece
            )
        )
    exits = any(at.exited for benchmark in benchmarks for at in benchmark.budgets)
    return Caption(
        "Accuracy, calibration and exits by budget",
        "Left: share right, with 95% intervals by resampling problems. Middle: ECE of each source "
        "at that budget; if a line stays low, the confidence is calibrated while the model thinks. "
        "Right: rollouts that ended by themselves"
        + (
            ", and rollouts that the policy certified at a target α would have stopped by then. "
            if exits
            else ". No policy was certified, so no exits are shown. "
        )
        + "All points of a line come from the same rollouts, so their errors are correlated.",
        ". ".join(said) + ".",
    )
