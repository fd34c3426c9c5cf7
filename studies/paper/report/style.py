"""The style of each method, the same in every figure."""

from __future__ import annotations

from calibration.report_kit.palette import BLUE, BROWN, GREEN, INK, ORANGE, PURPLE, ROSE, TEAL
from calibration.report_kit.style import DASH_DOT, DASHES, DOTS, Style
from studies.paper.runs import BASE

STYLES = {
    BASE: Style(INK, "v", DOTS),
    "grpo": Style(ORANGE, "s", DASHES),
    "rlcr": Style(BROWN, "D", DASH_DOT),
    "c2gspg": Style(GREEN, "^", DASH_DOT),
    "rlcm": Style(BLUE, "o"),
    "rlcm-authors": Style(TEAL, "h", DASHES),
    "rlcr-authors": Style(BROWN, "p", DOTS),
    "final-brier": Style(PURPLE, "P", DASHES),
    "final-margin": Style(ROSE, "X", DOTS),
    "process-brier": Style(TEAL, "d", DASH_DOT),
}
