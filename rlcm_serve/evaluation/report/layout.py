"""Figures with panels for each benchmark; a single benchmark has higher panels and no title."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.report_kit.panels import panels, rows_of_panels

Heights = tuple[float, float]
"""Of a row of panels, inches: if it is the only one, and if there are several."""


def row_per_benchmark(
    titles: Sequence[str], columns: Sequence[str], heights: Heights, x: str = ""
) -> tuple[Figure, list[list[Axes]]]:
    """A row of panels for each benchmark, with titles over the first row.

    Args:
        titles: of the benchmarks.
        columns: titles of the columns.
        x: label below all of them.
    """
    several = len(titles) > 1
    figure, rows = rows_of_panels(len(titles), len(columns), heights[several])
    for panel, column in zip(rows[0], columns, strict=True):
        panel.set_title(column)
    for row, title in zip(rows, titles, strict=True):
        if several:
            row[0].set_ylabel(title)
    if x:
        figure.supxlabel(x)
    return figure, rows


def panel_per_benchmark(
    titles: Sequence[str], heights: Heights, x: str, y: str
) -> tuple[Figure, list[Axes], int]:
    """A panel for each benchmark, at most three in a row; the last value is how many are.

    Args:
        titles: of the benchmarks.
        x, y: labels of all panels.
    """
    columns = min(len(titles), 3)
    figure, axes = panels(len(titles), columns, heights[columns > 1])
    for panel, title in zip(axes, titles, strict=True):
        panel.set_title(title if len(titles) > 1 else "")
    figure.supxlabel(x)
    figure.supylabel(y)
    return figure, axes, columns
