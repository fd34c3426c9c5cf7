"""How each source of confidence is drawn: told apart by markers and dashes, not by colour alone."""

from __future__ import annotations

from calibration.report_kit.palette import (
    BLUE,
    BROWN,
    GOLD,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    ROSE,
    TEAL,
)
from calibration.report_kit.style import DASH_DOT, DASHES, DOTS, Style
from rlcm_serve.evaluation.sources import ABOUT, Source

STYLES: dict[str, Style] = {
    Source.PROBE: Style(BLUE, "o"),
    Source.SEQUENCE_PROBABILITY: Style(ORANGE, "s", DASHES),
    Source.LOWEST_GROUP: Style(GREEN, "^", DASH_DOT),
    Source.TAIL: Style(PURPLE, "v", DOTS),
    Source.ANSWER_PROBABILITY: Style(TEAL, "D", DASHES),
    Source.AGREEMENT: Style(ROSE, "P", DASH_DOT),
    Source.ENTROPY: Style(GOLD, "X", DOTS),
    Source.VERBALIZED: Style(BROWN, "*"),
}

RUNS = tuple(STYLES.values())
"""Styles of runs side by side, that of the first run first; they repeat after eight."""

PASS_AT_1 = Style(MUTED, "", DASHES)
MAJORITY = Style(INK, "s")
ORACLE = Style(MUTED, "^", DASH_DOT)


def title_of(source: str) -> str:
    """The name of a source in tables and figures."""
    return ABOUT[Source(source)].title


def is_probability(source: str) -> bool:
    """Whether it claims to be the probability of being right."""
    return ABOUT[Source(source)].is_probability
