"""The words of the page of a comparison."""

from __future__ import annotations

from calibration.report_kit.words import Words
from rlcm_serve.evaluation.report.style import CATEGORY_TITLES

words = Words(
    "rlcm_serve.evaluation.compare",
    "comparison.txt.j2",
    {"category_title": CATEGORY_TITLES.__getitem__},
)
