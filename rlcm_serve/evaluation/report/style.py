"""How each source of confidence is drawn: told apart by markers and dashes, not by colour alone."""

from __future__ import annotations

from calibration.report_kit import palette
from calibration.report_kit.palette import BLUE, GREEN, INK, MUTED, ORANGE
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


def title_of(source: str) -> str:
    """The name of a source in tables and figures."""
    return ABOUT[Source(source)].title


def is_probability(source: str) -> bool:
    """Whether it claims to be the probability of being right."""
    return ABOUT[Source(source)].is_probability
