"""Figures of levels and readings: risk, tokens, reliability, risk-coverage."""

from collections.abc import Callable, Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from calibration.certificate.evaluate import Evaluation
from calibration.report.summary import Coverage, Measured, Summary
from calibration.report.wording import calibration_and_ranking, problems
from calibration.report_kit.palette import BLUE, INK, MUTED, ORANGE, PAPER
from calibration.report_kit.panels import draw_target, percent_axis
from calibration.report_kit.style import DASHES, DOTS, WIDTH
from calibration.report_kit.wording import target, tokens


def draw_risk(summary: Summary) -> Figure:
    """Target against realised risk of every level, with 95% intervals and the diagonal."""
    figure = Figure(figsize=(WIDTH, 4.1), layout="constrained")
    axes = figure.subplots()
    right = _rightmost(summary)
    highest = [
        level.evaluation.risk_interval[1]
        for measured in summary.measured
        for level in measured.levels
        if level.evaluation and level.evaluation.risk_interval
    ]
    top = max([right, *(1.06 * high for high in highest)])
    draw_target(axes, right, top)
    for measured, x_shift in _side_by_side(summary, right):
        _draw_intervals(axes, measured, x_shift)
    # Away from the diagonal, where the panel is empty.
    _draw_infeasible(axes, summary, lambda alpha: alpha < right / 2)
    percent_axis(axes, "y")
    _target_axis(axes, right)
    axes.set(ylim=(0, top), ylabel=f"realised risk ({summary.risk.name})")
    figure.legend(loc="outside upper left", ncols=4, columnspacing=1.4)
    return figure


def draw_tokens(summary: Summary) -> Figure:
    """Tokens against target; where the service may abstain, also what it answers."""
    figure = Figure(figsize=(WIDTH, 3.5), layout="constrained")
    n_panels = 1 if summary.risk.answers_always else 2
    panels = figure.subplots(1, n_panels, squeeze=False)[0].tolist()
    right = _rightmost(summary)
    panels[0].set_title("tokens, share of the full budget")
    panels[0].axhline(1, color=INK, linewidth=1, linestyle=DASHES, label="at the full budget")
    for measured in summary.measured:
        _draw_line(
            panels[0], measured, f"tokens, {problems(measured)}", lambda found: found.tokens_share
        )
    for panel in panels[1:]:
        shown = summary.shown
        panel.set_title("share of the questions")
        panel.axhline(shown.full_right, color=INK, linewidth=1, linestyle=DASHES)
        _draw_line(panel, shown, "answered", lambda found: found.answered_share, MUTED, "s")
        _draw_line(panel, shown, "answered right", lambda found: found.right_share, ORANGE, "D")
    for panel in panels:
        _draw_infeasible(panel, summary, lambda _: False)
        percent_axis(panel, "y")
        _target_axis(panel, right)
        panel.set_ylim(0, 1.09)
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def draw_reliability(summary: Summary) -> Figure:
    """Accuracy against confidence, for all readings and the final ones; and how many there are."""
    figure = Figure(figsize=(WIDTH, 5.0), layout="constrained")
    axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, label="accuracy = confidence")
    sets = (
        ("all readings", summary.all_readings, BLUE, "o", 0.0),
        ("final readings", summary.final_readings, ORANGE, "D", 0.04),
    )
    for name, found, color, marker, offset in sets:
        axes.plot(
            [b.confidence for b in found.bins],
            [b.accuracy for b in found.bins],
            color=color,
            marker=marker,
            clip_on=False,
            label=f"{name}: {found.n_readings:,}, {calibration_and_ranking(found)}",
        )
        counts.bar(
            [b.low + 0.01 + offset for b in found.bins],
            [b.count for b in found.bins],
            width=0.036,
            align="edge",
            color=color,
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="share right")
    counts.set(xlabel="confidence", ylabel="readings")
    counts.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    counts.yaxis.set_major_formatter(FuncFormatter(lambda number, _: tokens(number)))
    figure.align_ylabels()
    figure.legend(loc="outside upper left")
    return figure


def draw_coverage(summary: Summary, coverage: Coverage) -> Figure:
    """Risk of the most confident answers against their share, with the certified policies."""
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    axes = figure.subplots()
    curve = coverage.curve
    # Above the first threshold all answers have equal confidence, and any part the same risk.
    axes.plot(
        [0, *curve.coverage_K],
        [curve.risk_K[0], *curve.risk_K],
        color=INK,
        drawstyle="steps-pre",
        linewidth=1.2,
        label=f"full budget, the most confident answered (area {curve.area:.3f})",
    )
    top = 1.1 * max(*curve.risk_K, *(level.alpha for level in summary.certificate.levels))
    points = [
        (level.alpha, level.evaluation.answered_share, level.evaluation.realised_risk)
        for level in summary.shown.levels
        if level.evaluation and level.evaluation.realised_risk is not None
    ]
    _, face = _colors(summary.shown)
    for number, (alpha, share, risk) in enumerate(points):
        label = f"certified policies, {problems(summary.shown)}" if number == 0 else None
        axes.plot(share, risk, "o", color=BLUE, markerfacecolor=face, label=label, zorder=3)
        axes.annotate(
            target(alpha),
            (share, risk),
            xytext=(7, -9),
            textcoords="offset points",
            fontsize=8.5,
            color=BLUE,
        )
    percent_axis(axes, "x")
    percent_axis(axes, "y")
    axes.set(xlim=(0, 1), ylim=(0, min(top, 1)))
    axes.set(
        xlabel="coverage: share of the questions answered", ylabel="share wrong of the answers"
    )
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _draw_intervals(axes: Axes, measured: Measured, x_shift: float) -> None:
    found = [
        (level.alpha + x_shift, level.evaluation.realised_risk, *level.evaluation.risk_interval)
        for level in measured.levels
        if level.evaluation
        and level.evaluation.realised_risk is not None
        and level.evaluation.risk_interval is not None
    ]
    if not found:
        return
    x, risk, low, high = (list(column) for column in zip(*found, strict=True))
    color, face = _colors(measured)
    axes.vlines(x, low, high, color=color, linewidth=1.6)
    axes.plot(
        x, risk, "o", color=color, markerfacecolor=face, label=problems(measured), markersize=7
    )


def _draw_line(
    axes: Axes,
    measured: Measured,
    label: str,
    value: Callable[[Evaluation], float],
    color: str | None = None,
    marker: str = "o",
) -> None:
    points = [
        (level.alpha, value(level.evaluation)) for level in measured.levels if level.evaluation
    ]
    own, face = _colors(measured)
    axes.plot(
        [alpha for alpha, _ in points],
        [share for _, share in points],
        color=color or own,
        marker=marker,
        markerfacecolor=PAPER if face == PAPER else color or own,
        label=label,
    )


def _draw_infeasible(axes: Axes, summary: Summary, at_top: Callable[[float], bool]) -> None:
    alphas = [level.alpha for level in summary.certificate.levels if not level.certified]
    for alpha in alphas:
        axes.axvline(alpha, color=MUTED, linewidth=1, linestyle=DOTS)
        axes.annotate(
            "not certified",
            (alpha, 0.98 if at_top(alpha) else 0.02),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-4, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top" if at_top(alpha) else "bottom",
            fontsize=8,
            color=MUTED,
        )


def _colors(measured: Measured) -> tuple[str, str]:
    """Edge and face: test results are filled, calibration results hollow."""
    return (BLUE, BLUE) if measured.on_test else (MUTED, PAPER)


def _side_by_side(summary: Summary, right: float) -> Iterator[tuple[Measured, float]]:
    """Two sets lie a little apart, so that their intervals do not hide each other."""
    if len(summary.measured) == 1:
        yield summary.measured[0], 0.0
        return
    for measured in summary.measured:
        yield measured, right * (-0.006 if measured.on_test else 0.006)


def _rightmost(summary: Summary) -> float:
    return min(1.0, 1.12 * max(level.alpha for level in summary.certificate.levels))


def _target_axis(axes: Axes, right: float) -> None:
    axes.set(xlim=(0, right), xlabel="target α")
    percent_axis(axes, "x")
