"""Writes the page and its figures from the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
    repeated,
    votes,
)
from studies.paper.report.markdown import Block
from studies.paper.report.page import replace_blocks, skeleton
from studies.paper.report.results_index import ResultsIndex
from studies.paper.runs import PaperRun

Sections = dict[str, tuple[str, Callable[[ResultsIndex], Block]]]

SECTIONS: Sections = {
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


REPEATED: Sections = {
    "setting": SECTIONS["setting"],
    "tradeoff": ("Accuracy against calibration error", repeated.tradeoff),
    "main": SECTIONS["main"],
    "domain": ("Out of domain", repeated.domain),
    **{name: own for name, own in SECTIONS.items() if name not in ("claims", "runs")},
    "budgets": ("Answers on the way", budgets.budgets_over_seeds),
    "votes-budgets": ("Votes at every budget", repeated.votes_at_budgets),
    "phrases": ("Every phrase of doubt", repeated.phrases),
    "runs": SECTIONS["runs"],
}
"""Blocks of the page about three seeds of every method. No verdicts: it is descriptive."""

_RUNS_OF = {
    "ablation": PaperRun("final-brier", 0, 0.1),
    "lambda": PaperRun("rlcm", 0, 0.05),
    "brier": PaperRun("rlcr", 0, 0.0),
    "regulariser": PaperRun("c2gspg", 0, 0.1),
}
"""A run without which a block has nothing to say."""


def other_base_sections(planned: Sequence[PaperRun]) -> Sections:
    """Blocks of the page about another base model (App. C.1), for the runs that it has."""
    setting = partial(provenance.setting, elsewhere=provenance.OTHER_BASE)
    sections = REPEATED | {"setting": (REPEATED["setting"][0], setting)}
    return {
        name: own
        for name, own in sections.items()
        if name not in _RUNS_OF or _RUNS_OF[name] in planned
    }


def write_report(
    results: Path,
    page: Path,
    planned: tuple[PaperRun, ...] | None = None,
    sections: Sections = SECTIONS,
    heading: str = "The paper at toy scale",
) -> Path:
    """Replaces the blocks of a page, and the figures in the folder of the same name beside it.

    A missing page is created. The output depends only on the results, and writing starts once
    all blocks are complete.

    Args:
        results: folder of the results.
        page: Markdown.
        planned: all runs of the study; None: those of the paper.
        sections: blocks of the page.
        heading: of a new page.

    Returns:
        Path of the page.

    Raises:
        RequestRefused: results are missing or do not belong together, or a block of the page is
            unknown or missing.
    """
    index = ResultsIndex.read(results, planned)
    blocks = [make(index) for _, make in sections.values()]
    before = (
        page.read_text(encoding="utf-8")
        if page.exists()
        else skeleton({name: title for name, (title, _) in sections.items()}, heading)
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
