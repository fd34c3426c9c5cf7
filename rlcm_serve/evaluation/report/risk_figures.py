"""Figures of controlled risk: target against realised risk and tokens, and the frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.report_kit.palette import BLUE, INK, MUTED, PAPER
from calibration.report_kit.panels import draw_target, drawable, legend, panels, percent_axis
from calibration.report_kit.style import DASH_DOT, DASHES, DOTS, SOLID, Style
from rlcm_serve.evaluation.measuring.equal_error import full_error
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Controlled
from rlcm_serve.evaluation.report.style import (
    STYLES,
    panel_per_benchmark,
    row_per_benchmark,
    title_of,
)

MOST_ADDED = 0.15
"""A frontier is shown up to an error that is this much above the full budget's."""


def draw_target_risk(benchmark: BenchmarkMeasures) -> Figure:
    """Target against realised risk with intervals, a panel per source and number of samples."""
    shown = list(dict.fromkeys(map(_panel_of, _certified(benchmark))))
    columns = 4 if len(shown) > 6 or len(shown) == 4 else 3
    figure, axes = panels(len(shown), columns, 2.1 if min(len(shown), columns) > 2 else 3.0)
    right = min(1.0, 1.12 * max(found.alpha for found in benchmark.controlled))
    highs = (found.measured_risk.high for found in benchmark.controlled)
    top = min(1.0, max([right, *(1.06 * high for high in highs if high is not None)]))
    for panel, (source, samples) in zip(axes, shown, strict=True):
        draw_target(panel, right, top)
        here = [found for found in benchmark.controlled if _panel_of(found) == (source, samples)]
        _draw_realised(panel, here)
        voting = f", n = {samples}" if samples > 1 else ""
        panel.set_title(f"{title_of(source)}{voting}", fontsize=8.5)
        panel.set(xlim=(0, right), ylim=(0, top))
        percent_axis(panel, "x", 4)
        percent_axis(panel, "y", 5)
    figure.supxlabel("target α")
    figure.supylabel("realised risk")
    legend(figure)
    return figure


def draw_target_tokens(benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """Tokens and answers against target: a row per benchmark, a line per source and origin."""
    figure, rows = row_per_benchmark(
        [benchmark.title for benchmark in benchmarks],
        ("tokens, share of the full budget's", "questions answered"),
        (2.7, 2.2),
        "target α",
    )
    for (spent, answered), benchmark in zip(rows, benchmarks, strict=True):
        spent.axhline(1, color=INK, linewidth=1, linestyle=DASHES, label="at the full budget")
        n_certificates = 0
        for found in _lines(benchmark.controlled):
            source, origin = found[0].source, found[0].origin
            label, style = title_of(source), STYLES[source].line(hollow=True)
            if origin.certificate:
                label += f", {origin}"
                style = _of_certificate(source, n_certificates)
                n_certificates += 1
            alphas = [at.alpha for at in found]
            spent.plot(alphas, drawable(at.tokens_share for at in found), label=label, **style)
            answered.plot(alphas, drawable(at.answered for at in found), label=label, **style)
        for panel in (spent, answered):
            percent_axis(panel, "x", 5)
            percent_axis(panel, "y", 5)
            panel.set_xlim(left=0)
            panel.set_ylim(bottom=0)
        answered.set_ylim(0, 1.04)
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
        for frontier in benchmark.frontiers:
            panel.plot(
                frontier.tokens,
                frontier.error,
                label=title_of(frontier.source),
                markevery=max(1, len(frontier.tokens) // 10),
                **STYLES[frontier.source].line(),
            )
        panel.plot(
            1, full_error(benchmark), "o", color=INK, markersize=9,
            markerfacecolor="none", markeredgewidth=1.4, label="full budget", zorder=4,
        )  # fmt: skip
        _near_full_budget(panel, benchmark)
        percent_axis(panel, "x", 5 if columns < 3 else 3)
        percent_axis(panel, "y", 5)
    legend(figure)
    return figure


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


def _near_full_budget(panel: Axes, benchmark: BenchmarkMeasures) -> None:
    """Leaves out errors far above the full budget's, where nobody would stop."""
    errors = [error for frontier in benchmark.frontiers for error in frontier.error]
    top = min(max(errors), full_error(benchmark) + MOST_ADDED)
    shown = [
        tokens
        for frontier in benchmark.frontiers
        for tokens, error in zip(frontier.tokens, frontier.error, strict=True)
        if error <= top
    ]
    low, high = min(shown), max(1.0, *shown)
    margin = 0.03 * (high - low) + 0.005
    height = top - min(errors) + 0.01
    panel.set_xlim(low - margin, high + margin)
    panel.set_ylim(max(0.0, min(errors) - 0.06 * height), top + 0.06 * height)


def _draw_realised(panel: Axes, here: Sequence[Controlled]) -> None:
    """Every origin's points; crosses where none of them is certified."""
    certified = [found for found in here if found.reason is None]
    for origin in dict.fromkeys(found.origin for found in certified):
        _draw_origin(panel, [found for found in certified if found.origin == origin])
    unmet = sorted({f.alpha for f in here} - {f.alpha for f in certified})
    if unmet:
        panel.plot(unmet, [0] * len(unmet), "x", color=MUTED, clip_on=False, label="not certified")


def _draw_origin(panel: Axes, own: Sequence[Controlled]) -> None:
    """Points with their intervals."""
    known = [found for found in own if found.measured_risk.value is not None]
    for found in known:
        bounds = drawable((found.measured_risk.low, found.measured_risk.high))
        panel.plot([found.alpha, found.alpha], bounds, color=BLUE, linewidth=1.3)
    if not known:
        return
    certificate = own[0].origin.certificate
    panel.plot(
        [found.alpha for found in known],
        drawable(found.measured_risk.value for found in known),
        "o" if certificate else "D",
        color=BLUE,
        markersize=5,
        markerfacecolor=BLUE if certificate else PAPER,
        label="under a certificate" if certificate else "fitted for this report",
        zorder=3,
    )


def _of_certificate(source: str, number: int) -> dict[str, Any]:
    """Filled, in its source's colour; several are told apart by marker and dashes."""
    markers, dashes = "osD^", (SOLID, DASHES, DOTS, DASH_DOT)
    style = Style(STYLES[source].color, markers[number % 4], dashes[number % 4])
    return style.line()


def _lines(controlled: Iterable[Controlled]) -> Iterator[list[Controlled]]:
    """Targets with tokens, by source and origin, by rising target."""
    shown = sorted(
        (found for found in controlled if found.tokens_share is not None),
        key=lambda found: (list(STYLES).index(found.source), str(found.origin), found.alpha),
    )
    for _, line in groupby(shown, key=lambda found: (found.source, found.origin)):
        yield list(line)
