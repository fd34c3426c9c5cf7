"""Writes the page and its figures from the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from calibration.report_kit.files import replace_files
from calibration.report_kit.style import settings
from calibration.report_kit.svg import png
from studies.paper.report import (
    ablations,
    accuracy,
    budgets,
    claims,
    confidence,
    control,
    curves,
    provenance,
    votes,
)
from studies.paper.report.markdown import Block
from studies.paper.report.page import replace_blocks, skeleton
from studies.paper.report.results_index import ResultsIndex

SECTIONS: dict[str, tuple[str, Callable[[ResultsIndex], Block]]] = {
    "setting": ("What was run", provenance.setting),
    "main": ("Accuracy and calibration", accuracy.main),
    "gain": ("Differences on the same problems", accuracy.gain),
    "budgets": ("Answers on the way", budgets.budgets),
    "ablation": ("Final or process, Brier or margin", ablations.ablation),
    "lambda": ("The weight of the margin", ablations.margin_weight),
    "brier": ("The weight of RLCR's Brier term", ablations.brier_weight),
    "regulariser": ("The weight of C²GSPG's regulariser", ablations.regulariser),
    "votes": ("One answer from several rollouts", votes.votes),
    "control": ("Risk control", control.control),
    "confidence": ("Where confidences lie", confidence.distributions),
    "markers": ("Doubt in the reasoning", confidence.markers),
    "training": ("Training", curves.training),
    "claims": ("What the paper claims", claims.claims),
    "runs": ("Every run", provenance.runs),
}
"""Blocks of the page: the title in a new page, and the function that makes the block."""


def write_report(results: Path, page: Path) -> Path:
    """Replaces the blocks of a page, and the figures in the folder of the same name beside it.

    A missing page is created. The output depends only on the results, and writing starts once
    all blocks are complete.

    Returns:
        Path of the page.

    Raises:
        RequestRefused: results are missing or do not belong together, or a block of the page is
            unknown or missing.
    """
    index = ResultsIndex.read(results)
    blocks = [make(index) for _, make in SECTIONS.values()]
    before = (
        page.read_text(encoding="utf-8")
        if page.exists()
        else skeleton({name: title for name, (title, _) in SECTIONS.items()})
    )
    folder = page.stem
    after = replace_blocks(before, {block.name: block.markdown(folder) for block in blocks})
    with settings():
        files = {
            f"{folder}/{plate.name}.png": png(plate.draw())
            for block in blocks
            for plate in block.plates
        }
    former = [f"{folder}/{path.name}" for path in (page.parent / folder).glob("*.png")]
    replace_files(page.parent, {**files, page.name: after.encode()}, former)
    return page
