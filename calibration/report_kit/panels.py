"""Small multiples: panels of one figure, their axes, curves with intervals, one legend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.report_kit.palette import INK, TINT
from calibration.report_kit.style import WIDTH, Style
from calibration.report_kit.wording import rate, tokens

_LETTER = 0.06
"""Width of a letter of a legend, inches."""
_STEPS = (1, 2, 2.5, 5, 10)
"""Distances of ticks, up to a power of ten."""


def panels(n: int, columns: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, filled row by row; the rest of the last row stays empty.

    Args:
        n: panels, at least 1.
        columns: at most so many in a row.
        height: of one row, inches.
    """
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(WIDTH, 0.55 + rows * height), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in every[n:]:
        spare.remove()
    return figure, every[:n]


def rows_of_panels(n: int, columns: int, height: float) -> tuple[Figure, list[list[Axes]]]:
    """A figure of n rows, each with all columns: one row for each benchmark."""
    figure, axes = panels(n * columns, columns, height)
    return figure, [axes[row * columns : (row + 1) * columns] for row in range(n)]


def one_scale(axes: Sequence[Axes]) -> None:
    """Gives the panels of each row the same y limits, so that their heights can be compared."""
    rows: dict[int, list[Axes]] = {}
    for panel in axes:
        place = panel.get_subplotspec()
        rows.setdefault(place.rowspan.start if place else 0, []).append(panel)
    for row in rows.values():
        limits = [panel.get_ylim() for panel in row]
        for panel in row:
            panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def percent_axis(axes: Axes, which: str, ticks: int = 6) -> None:
    """Shares in [0, 1] as percentages."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(ticks, steps=_STEPS))
    axis.set_major_formatter(FuncFormatter(lambda share, _: rate(round(share, 9))))


def tokens_axis(axes: Axes, ticks: int = 5) -> None:
    """Tokens, from 0, with commas for thousands."""
    axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True, steps=_STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: tokens(number)))
    axes.set_xlim(left=0)


def draw_target(axes: Axes, right: float, top: float) -> None:
    """The diagonal on which the risk equals its target, and the area above it."""
    axes.fill_between([0, right], [0, right], top, color=TINT, linewidth=0, label="above target")
    axes.plot([0, right], [0, right], color=INK, linewidth=1, label="risk = target")


def drawable(values: Iterable[float | None]) -> list[float]:
    """Values for a line, with a gap where one is unknown."""
    return [math.nan if value is None else value for value in values]


def draw_curve(
    axes: Axes,
    x: Sequence[float],
    estimates: Sequence[Estimate],
    style: Style,
    label: str,
    band: bool = True,
) -> None:
    """A line through the defined values, with their intervals as a band."""
    known = [(at, e) for at, e in zip(x, estimates, strict=True) if e.value is not None]
    axes.plot(
        [at for at, _ in known],
        drawable(e.value for _, e in known),
        label=label,
        markevery=max(1, len(known) // 10),
        **style.line(),
    )
    bounded = [(at, e.low, e.high) for at, e in known if e.low is not None and e.high is not None]
    if band and bounded:
        at, low, high = zip(*bounded, strict=True)
        axes.fill_between(at, low, high, color=style.color, alpha=0.14, linewidth=0)


def draw_bars(
    axes: Axes, x: Sequence[float], estimates: Sequence[Estimate], color: str, zorder: float
) -> None:
    """Intervals as thin bars, pale enough to lie behind points of other lines."""
    for at, estimate in zip(x, estimates, strict=True):
        if estimate.interval is not None:
            axes.plot([at, at], estimate.interval, color=color, alpha=0.45, zorder=zorder)


def legend(figure: Figure) -> None:
    """One legend for all panels, every label once, in as many columns as fit."""
    entries = {
        label: handle
        for panel in figure.axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if not entries:
        return
    longest = max(map(len, entries))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=max(1, min(len(entries), int(WIDTH / (_LETTER * longest + 0.55)))),
        columnspacing=1.4,
        handlelength=2.6,
    )
