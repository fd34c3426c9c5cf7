"""How each source of confidence is drawn: told apart by markers and dashes, not by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibration.report_kit.palette import (
    BLUE,
    BROWN,
    GOLD,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    ROSE,
    TEAL,
)
from rlcm_serve.evaluation.sources import ABOUT, Source

SOLID: tuple[int, tuple[float, ...]] = (0, ())
DASHES = (0, (4.0, 2.0))
DOTS = (0, (1.2, 1.6))
DASH_DOT = (0, (5.0, 1.6, 1.2, 1.6))


@dataclass(frozen=True, slots=True)
class Look:
    """A line: its colour, its marker, its dashes (offset, on and off in line widths)."""

    color: str
    marker: str
    dashes: tuple[int, tuple[float, ...]] = SOLID

    def line(self, hollow: bool = False) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": self.dashes,
            "markerfacecolor": PAPER if hollow else self.color,
            "markersize": 5,
        }


LOOKS: dict[str, Look] = {
    Source.PROBE: Look(BLUE, "o"),
    Source.SEQUENCE_PROBABILITY: Look(ORANGE, "s", DASHES),
    Source.LOWEST_GROUP: Look(GREEN, "^", DASH_DOT),
    Source.TAIL: Look(PURPLE, "v", DOTS),
    Source.ANSWER_PROBABILITY: Look(TEAL, "D", DASHES),
    Source.AGREEMENT: Look(ROSE, "P", DASH_DOT),
    Source.ENTROPY: Look(GOLD, "X", DOTS),
    Source.VERBALIZED: Look(BROWN, "*"),
}

RUNS = tuple(LOOKS.values())
"""Looks of runs side by side, the first one first; they begin again after eight."""

PASS_AT_1 = Look(MUTED, "", DASHES)
MAJORITY = Look(INK, "s")
ORACLE = Look(MUTED, "^", DASH_DOT)


def title_of(source: str) -> str:
    """How a source is called in tables and figures."""
    return ABOUT[Source(source)].title


def is_probability(source: str) -> bool:
    """Whether it claims to be the probability of being right."""
    return ABOUT[Source(source)].is_probability
