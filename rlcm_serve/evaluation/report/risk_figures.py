"""Figures of controlled risk: target against realised risk and tokens, and the frontier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.report_kit.palette import BLUE, INK, MUTED, PAPER
from calibration.report_kit.panels import (
    draw_bars,
    draw_target,
    drawable,
    legend,
    one_scale,
    panels,
    percent_axis,
)
from calibration.report_kit.style import DASHES, DOTS, SOLID, Style
from rlcm_serve.evaluation.measuring.equal_error import full_error
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Controlled, Frontier
from rlcm_serve.evaluation.report.style import (
    STYLES,
    panel_per_benchmark,
    title_of,
)

MOST_ADDED = 0.15
"""A frontier is shown up to an error that is this much above the full budget's."""
_SIDE_BY_SIDE = 0.018
"""Distance of points with one target, as a share of the axis."""


def draw_target_risk(benchmark: BenchmarkMeasures) -> Figure:
    """Target against realised risk with intervals, a panel per source and number of samples."""
    shown = list(dict.fromkeys(map(_panel_of, _certified(benchmark))))
    figure, axes = _panels(len(shown))
    right = min(1.0, 1.12 * max(found.alpha for found in benchmark.controlled))
    highs = (found.measured_risk.high for found in benchmark.controlled)
    top = min(1.0, max([right, *(1.06 * high for high in highs if high is not None)]))
    for panel, (source, samples) in zip(axes, shown, strict=True):
        draw_target(panel, right, top)
        panel.set(xlim=(0, right), ylim=(0, top))
        here = [found for found in benchmark.controlled if _panel_of(found) == (source, samples)]
        _draw_realised(panel, here)
        panel.set_title(_title(source, samples), fontsize=8.5)
        percent_axis(panel, "x", 4)
        percent_axis(panel, "y", 5)
    figure.supxlabel("target α")
    figure.supylabel("realised risk")
    legend(figure)
    return figure


def draw_target_tokens(benchmark: BenchmarkMeasures) -> Figure:
    """Tokens and answers against target: a panel per source and number of samples, on one scale."""
    shown = list(dict.fromkeys(map(_panel_of, _certified(benchmark))))
    figure, axes = _panels(len(shown))
    right = min(1.0, 1.12 * max(found.alpha for found in benchmark.controlled))
    for panel, place in zip(axes, shown, strict=True):
        panel.axhline(1, color=INK, linewidth=1, linestyle=DASHES, label="at the full budget")
        here = [found for found in _certified(benchmark) if _panel_of(found) == place]
        origins = list(dict.fromkeys(found.origin for found in here))
        for number, origin in enumerate(origins):
            shift = _SIDE_BY_SIDE * right * (number - (len(origins) - 1) / 2)
            _draw_spent(panel, [found for found in here if found.origin == origin], shift)
        panel.set_title(_title(*place), fontsize=8.5)
        panel.set(xlim=(0, right))
        panel.set_ylim(bottom=0)
    one_scale(axes)
    for panel in axes:
        percent_axis(panel, "x", 4)
        percent_axis(panel, "y", 5)
    figure.supxlabel("target α")
    figure.supylabel("share")
    legend(figure)
    return figure


def draw_frontier(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """Tokens against error along each source's thresholds."""
    figure, axes, columns = panel_per_benchmark(
        [benchmark.title for benchmark in benchmarks],
        (3.5, 2.5),
        "tokens including those of the readings, share of the full budget's",
        "share answered wrong",
    )
    for panel, benchmark in zip(axes, benchmarks, strict=True):
        top = _top(benchmark)
        _near_full_budget(panel, benchmark)
        _draw_band(panel, benchmark.plain_frontiers[0], top)
        # The run's own source comes first, and is drawn over the others.
        for place, frontier in enumerate(benchmark.plain_frontiers):
            tokens, error = _up_to(frontier, top)
            panel.plot(
                tokens,
                error,
                label=title_of(frontier.source),
                markevery=max(1, len(tokens) // 10),
                zorder=3.0 - 0.1 * place,
                **STYLES[frontier.source].line(),
            )
        panel.plot(
            1, full_error(benchmark), "o", color=INK, markersize=9,
            markerfacecolor="none", markeredgewidth=1.4, label="full budget", zorder=4,
        )  # fmt: skip
        percent_axis(panel, "x", 5 if columns < 3 else 3)
        percent_axis(panel, "y", 5)
    legend(figure)
    return figure


def _panels(n: int) -> tuple[Figure, list[Axes]]:
    columns = 4 if n > 6 or n == 4 else 3
    return panels(n, columns, 2.1 if min(n, columns) > 2 else 3.0)


def _title(source: str, samples: int) -> str:
    return f"{title_of(source)}, n = {samples}" if samples > 1 else title_of(source)


def certified_sources(benchmark: BenchmarkMeasures) -> list[str]:
    """Sources with a certified policy at some target."""
    return list(dict.fromkeys(found.source for found in _certified(benchmark)))


def _certified(benchmark: BenchmarkMeasures) -> list[Controlled]:
    """By source, then by the number of samples."""
    certified = [found for found in benchmark.controlled if found.reason is None]
    return sorted(certified, key=lambda f: (list(STYLES).index(f.source), _panel_of(f)[1]))


def _panel_of(found: Controlled) -> tuple[str, int]:
    """Its source, and how many samples vote."""
    return found.source, found.origin.samples


def _top(benchmark: BenchmarkMeasures) -> float:
    """The highest error that is drawn: above, nobody would stop."""
    most = max(error for frontier in benchmark.plain_frontiers for error in frontier.error)
    full = full_error(benchmark)
    return max(full, min(most, full + MOST_ADDED))


def _up_to(frontier: Frontier, top: float) -> tuple[list[float], list[float]]:
    """Tokens and errors until the line first crosses an error, with the point where it does."""
    tokens, error = list(frontier.tokens), list(frontier.error)
    for at in range(1, len(error)):
        if error[at] > top:
            way = (top - error[at - 1]) / (error[at] - error[at - 1])
            crossing = tokens[at - 1] + way * (tokens[at] - tokens[at - 1])
            return [*tokens[:at], crossing], [*error[:at], top]
    return tokens, error


def _draw_band(panel: Axes, frontier: Frontier, top: float) -> None:
    """The interval of a source's error, and that of the full budget as a line, in the panel."""
    if not frontier.error_low:
        return
    n = len(_up_to(frontier, top)[0])
    bounds = np.clip([frontier.error_low[:n], frontier.error_high[:n]], *panel.get_ylim())
    color = STYLES[frontier.source].color
    panel.fill_between(frontier.tokens[:n], *bounds, color=color, alpha=0.14, linewidth=0)
    panel.plot([1, 1], bounds[:, 0], color=INK, linewidth=1.2, zorder=3)


def _near_full_budget(panel: Axes, benchmark: BenchmarkMeasures) -> None:
    """Leaves out errors far above the full budget's."""
    frontiers = benchmark.plain_frontiers
    errors = [error for each in frontiers for error in (*each.error, *each.error_low[:1])]
    errors.append(full_error(benchmark))
    top = _top(benchmark)
    shown = [tokens for frontier in frontiers for tokens in _up_to(frontier, top)[0]]
    low, high = min(shown), max(1.0, *shown)
    margin = 0.03 * (high - low) + 0.005
    height = top - min(errors) + 0.01
    panel.set_xlim(low - margin, high + margin)
    panel.set_ylim(max(0.0, min(errors) - 0.06 * height), top + 0.06 * height)


def _draw_realised(panel: Axes, here: Sequence[Controlled]) -> None:
    """Every origin's points, side by side; crosses where none of them is certified.

    Policies under a certificate are drawn over the others.
    """
    certified = [found for found in here if found.reason is None]
    origins = list(dict.fromkeys(found.origin for found in certified))
    step = _SIDE_BY_SIDE * panel.get_xlim()[1]
    for place, origin in enumerate(origins):
        shift = step * (place - (len(origins) - 1) / 2)
        _draw_origin(panel, [found for found in certified if found.origin == origin], shift)
    unmet = sorted({f.alpha for f in here} - {f.alpha for f in certified})
    if unmet:
        at = [0.03 * panel.get_ylim()[1]] * len(unmet)
        panel.plot(unmet, at, "x", color=MUTED, markersize=5, label="not certified")


def _draw_origin(panel: Axes, own: Sequence[Controlled], shift: float) -> None:
    """Points with their intervals."""
    known = [found for found in own if found.measured_risk.value is not None]
    certificate = bool(own[0].origin.certificate)
    over = 4 if certificate else 3
    for found in known:
        bounds = drawable((found.measured_risk.low, found.measured_risk.high))
        at = found.alpha + shift
        panel.plot([at, at], bounds, color=BLUE, linewidth=1.3, zorder=over)
    if not known:
        return
    panel.plot(
        [found.alpha + shift for found in known],
        drawable(found.measured_risk.value for found in known),
        "o" if certificate else "D",
        color=BLUE,
        markersize=5,
        markerfacecolor=BLUE if certificate else PAPER,
        label="under a certificate" if certificate else "fitted for this report",
        zorder=over,
    )


def _draw_spent(panel: Axes, own: Sequence[Controlled], shift: float) -> None:
    """Tokens and questions answered under one origin's policies, by rising target."""
    line = sorted((f for f in own if f.tokens_share is not None), key=lambda found: found.alpha)
    certificate = bool(own[0].origin.certificate)
    kind = "under a certificate" if certificate else "fitted for this report"
    at = [found.alpha + shift for found in line]
    over = 4 if certificate else 3
    for estimates, color, marker, what in (
        ([found.spends for found in line], BLUE, "o", "tokens"),
        ([found.answers for found in line], MUTED, "s", "questions answered"),
    ):
        draw_bars(panel, at, estimates, color, over - 0.5)
        panel.plot(
            at,
            drawable(estimate.value for estimate in estimates),
            label=f"{what}, {kind}",
            zorder=over,
            **Style(color, marker, SOLID if certificate else DOTS).line(hollow=not certificate),
        )
