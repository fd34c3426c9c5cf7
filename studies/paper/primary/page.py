"""The generated parts of the primary comparison's page: the pilot's figures, and the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from calibration.report_kit.files import replace_files
from calibration.report_kit.style import settings
from calibration.report_kit.svg import png
from studies.paper.primary import figure
from studies.paper.primary.design import PILOT_SEEDS, SEEDS
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.secondary import PANELS, Panel, PanelFigures, panel_figures
from studies.paper.primary.secondary_tables import secondary_text, seconds_text
from studies.paper.primary.tables import report_text
from studies.paper.primary.verdicts import RESAMPLES, whole_seeds
from studies.paper.report.markdown import Block
from studies.paper.report.page import replace_blocks

BLOCKS = {"pilot": PILOT_SEEDS, "results": SEEDS}
"""The seeds behind each block of the page."""


def found_on_panels(
    results: Mapping[str, PrimaryResult], seeds: Sequence[int], number: int = RESAMPLES
) -> dict[Panel, PanelFigures]:
    """The secondary figures on every panel; empty below two whole seeds."""
    whole = whole_seeds(results, seeds)
    if len(whole) < 2:
        return {}
    return {panel: panel_figures(results, whole, panel, number) for panel in PANELS}


def full_text(
    results: Mapping[str, PrimaryResult],
    seeds: Sequence[int],
    found: Mapping[Panel, PanelFigures],
    number: int = RESAMPLES,
) -> str:
    """Primary hypotheses, secondary figures and seconds."""
    own = [one for one in results.values() if one.seed in seeds]
    parts = [report_text(results, seeds, number)]
    parts += [secondary_text(found)] if found else []
    parts += [seconds_text(own)] if own else []
    return "\n\n".join(parts)


def write_page(results: Mapping[str, PrimaryResult], page: Path, number: int = RESAMPLES) -> Path:
    """Replaces the page's blocks, and the figures in the folder of the same name beside it.

    Raises:
        RequestRefused: a block of the page is unknown or missing.
    """
    texts: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for name, seeds in BLOCKS.items():
        found = found_on_panels(results, seeds, number)
        plates = (figure.plate(found, f"accuracy-ece-{name}"),) if found else ()
        text = full_text(results, seeds, found, number)
        texts[name] = Block(name, (text, *plates)).markdown(page.stem)
        with settings():
            files |= {f"{page.stem}/{own.name}.png": png(own.draw()) for own in plates}
    after = replace_blocks(page.read_text(encoding="utf-8"), texts)
    former = [f"{page.stem}/{path.name}" for path in (page.parent / page.stem).glob("*.png")]
    replace_files(page.parent, {**files, page.name: after.encode()}, former)
    return page
