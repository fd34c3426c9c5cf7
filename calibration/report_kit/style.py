"""How figures look: matplotlib's settings, and lines that differ by marker and dashes too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from matplotlib import style

from calibration.report_kit.palette import GRID, INK, MUTED, PAPER

WIDTH = 7.2
"""Width of every figure, inches."""

Dashes = tuple[int, tuple[float, ...]]
"""Offset, then on and off in line widths."""
SOLID: Dashes = (0, ())
DASHES: Dashes = (0, (4.0, 2.0))
DOTS: Dashes = (0, (1.2, 1.6))
DASH_DOT: Dashes = (0, (5.0, 1.6, 1.2, 1.6))

_SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "figure.facecolor": PAPER,
    "figure.labelsize": 9,
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
    "svg.fonttype": "path",  # the page looks the same whatever fonts its reader has
    "svg.hashsalt": "rlcm",  # and is the same whenever it is made
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}


@dataclass(frozen=True, slots=True)
class Style:
    """A line: its colour, its marker, its dashes."""

    color: str
    marker: str
    dashes: Dashes = SOLID

    def line(self, hollow: bool = False) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": self.dashes,
            "markerfacecolor": PAPER if hollow else self.color,
            "markersize": 5,
        }


@contextmanager
def settings() -> Iterator[None]:
    """Draw and save within it: the look of a report, whatever the user's own settings are.

    It sets matplotlib's settings, which all threads share, and puts them back.
    """
    with style.context(["default", _SETTINGS]):
        yield
