"""How figures look: sources told apart not by colour alone, and panels for each benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.report_kit import palette
from calibration.report_kit.palette import BLUE, GREEN, INK, MUTED, ORANGE
from calibration.report_kit.panels import panels, rows_of_panels
from calibration.report_kit.style import DASH_DOT, DASHES, DOTS, Style
from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.sources import ABOUT, Source

STYLES: dict[str, Style] = {
    Source.PROBE: Style(BLUE, "o"),
    Source.SEQUENCE_PROBABILITY: Style(ORANGE, "s", DASHES),
    Source.LOWEST_GROUP: Style(GREEN, "^", DASH_DOT),
    Source.TAIL: Style(palette.PURPLE, "v", DOTS),
    Source.ANSWER_PROBABILITY: Style(palette.TEAL, "D", DASHES),
    Source.AGREEMENT: Style(palette.ROSE, "P", DASH_DOT),
    Source.ENTROPY: Style(palette.GOLD, "X", DOTS),
    Source.VERBALIZED: Style(palette.BROWN, "*"),
}

RUNS = tuple(STYLES.values())
"""Styles of runs side by side, that of the first run first; they repeat after eight."""

CATEGORY_TITLES: dict[str, str] = {
    Category.SELF_CORRECTION: "self-correction",
    Category.HEDGING: "confidence hedging",
    Category.KNOWLEDGE_GAP: "knowledge gap",
}
"""Names of the categories of markers in tables and figures."""

PASS_AT_1 = Style(MUTED, "", DASHES)
MAJORITY = Style(INK, "s")
ORACLE = Style(MUTED, "^", DASH_DOT)

Heights = tuple[float, float]
"""Of a row of panels, inches: if it is the only one, and if there are several."""


def title_of(source: str) -> str:
    """The name of a source in tables and figures."""
    return ABOUT[Source(source)].title


def is_probability(source: str) -> bool:
    """Whether it claims to be the probability of being right."""
    return ABOUT[Source(source)].is_probability


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
