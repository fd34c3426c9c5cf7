"""How each method is drawn, the same in every figure."""

from __future__ import annotations

from calibration.report_kit.palette import BLUE, BROWN, GREEN, INK, ORANGE, PURPLE, ROSE, TEAL
from rlcm_serve.evaluation.report.style import DASH_DOT, DASHES, DOTS, Look
from studies.paper.runs import BASE

LOOKS = {
    BASE: Look(INK, "v", DOTS),
    "grpo": Look(ORANGE, "s", DASHES),
    "rlcr": Look(BROWN, "D", DASH_DOT),
    "c2gspg": Look(GREEN, "^", DASH_DOT),
    "rlcm": Look(BLUE, "o"),
    "final-brier": Look(PURPLE, "P", DASHES),
    "final-margin": Look(ROSE, "X", DOTS),
    "process-brier": Look(TEAL, "d", DASH_DOT),
}
