"""Secondary figures of made results: by hand, with intervals, as tables, figure and page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibration.metrics.reliability import expected_calibration_error
from calibration.report_kit.style import settings
from calibration.report_kit.svg import png
from studies.paper.primary.design import JOINT, METHODS, PILOT_SEEDS, POSTHOC, RICHER
from studies.paper.primary.figure import plate
from studies.paper.primary.page import found_on_panels, full_text, write_page
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.secondary import (
    CONFLICTS,
    OUT_OF_DOMAIN,
    PANELS,
    TRAINED,
    Panel,
    PanelFigures,
    Reading,
    panel_figures,
)
from tests.studies.paper.primary.made_primary import made

KINDS = ("dial", "dial_conflict", "tale")
PROBLEMS = tuple(f"{kind}-5-{at}" for kind in KINDS for at in range(40))
USED = PILOT_SEEDS
FEW = 30
"""Resamples."""
GRPO, RLCM = Reading("grpo", POSTHOC), Reading("rlcm", POSTHOC)


@pytest.fixture(scope="module")
def results() -> dict[str, PrimaryResult]:
    """RLCM tells more than GRPO by every probe, and has a joint one."""
    found = {}
    for seed in USED:
        for method in METHODS:
            probes = (POSTHOC, RICHER, JOINT) if method == "rlcm" else (POSTHOC, RICHER)
            tells = 3.0 if method == "rlcm" else 1.0
            one = made(method, seed, tells, probes=probes, problems=PROBLEMS)
            found[one.name] = one
    return found


@pytest.fixture(scope="module")
def found(results: dict[str, PrimaryResult]) -> dict[Panel, PanelFigures]:
    return found_on_panels(results, USED, FEW)


def test_panels_part_the_problems(found: dict[Panel, PanelFigures]) -> None:
    assert {panel.title: found[panel].n_problems for panel in PANELS} == {
        "trained kinds": 80,
        "trained kinds with a conflict": 40,
        "out of domain": 40,
    }


def test_values_are_means_over_seeds_of_the_plain_figures(
    results: dict[str, PrimaryResult], found: dict[Panel, PanelFigures]
) -> None:
    for panel in (CONFLICTS, OUT_OF_DOMAIN):
        on_P = np.array([panel.holds(name) for name in PROBLEMS])
        own = [results[f"grpo-{seed}"].measured for seed in USED]
        right = [one.right(on_P).ravel() for one in own]
        read = [one.confidence(POSTHOC, on_P).ravel() for one in own]
        expected = {
            "accuracy": np.mean(right),
            "Brier score": np.mean([(a - b) ** 2 for a, b in zip(right, read, strict=True)]),
            "ECE": np.mean(
                [expected_calibration_error(b, a) for a, b in zip(right, read, strict=True)]
            ),
        }
        for title, value in expected.items():
            estimate = found[panel].value(GRPO, title)
            assert estimate.value == pytest.approx(value)
            assert estimate.low is not None
            assert estimate.low < estimate.value


def test_a_difference_is_paired_and_its_interval_finds_what_differs(
    found: dict[Panel, PanelFigures],
) -> None:
    own = found[TRAINED]
    for title in ("AUROC", "resolution", "AUROC within a question"):
        difference = own.difference(RLCM, GRPO, title)
        values = [own.value(reading, title).value or 0.0 for reading in (RLCM, GRPO)]
        assert difference.value == pytest.approx(values[0] - values[1])
        assert (difference.low or 0.0) > 0
    none = own.difference(GRPO, GRPO, "ECE")
    assert (none.value, none.low, none.high) == pytest.approx((0, 0, 0), abs=1e-9)


def test_tokens_are_given_only_under_exits_that_were_certified(
    results: dict[str, PrimaryResult], found: dict[Panel, PanelFigures]
) -> None:
    own, title = found[TRAINED], "tokens under certified exits"
    assert own.value(GRPO, title).value == pytest.approx(400, abs=5)
    assert own.value(Reading("grpo", RICHER), title).value is None
    assert own.difference(Reading("grpo", RICHER), GRPO, title).value is None


def test_no_figure_within_questions_is_given_of_few_common_problems(
    results: dict[str, PrimaryResult],
) -> None:
    few = Panel("few", lambda name: name.startswith("dial-") and int(name.split("-")[2]) < 15)
    few_found = {few: panel_figures(results, USED, few, FEW)}
    assert few_found[few].n_problems == 15
    assert few_found[few].value(GRPO, "AUROC within a question").value is None
    assert few_found[few].value(GRPO, "accuracy").value is not None


def test_tables_name_every_panel_and_probe_and_give_no_verdict(
    results: dict[str, PrimaryResult], found: dict[Panel, PanelFigures]
) -> None:
    text = full_text(results, USED, found, FEW)
    for panel in PANELS:
        assert f"**{panel.title.capitalize()}**, by the post-hoc probe" in text
    assert "| accuracy ↑ | ECE ↓ | Brier score ↓ | AUROC ↑ |" in text
    assert "| RLCM, joint probe − GRPO, post-hoc probe |" in text
    assert "| RLCM, richer probe − GRPO, richer probe |" in text
    assert "| GRPO, richer probe − GRPO, post-hoc probe |" in text
    assert "GRPO, joint probe" not in text
    assert "| RLCM | 3 | 100 | 100 | 100 | 302 | 302, 302, 302 |" in text
    assert "better" not in text


def test_the_figure_has_both_panels_and_says_in_words_what_it_shows(
    found: dict[Panel, PanelFigures],
) -> None:
    shown = plate(found, "accuracy-ece-pilot")
    assert "out of domain, RLCM (authors' code): accuracy 0." in shown.caption.alt
    with settings():
        figure = shown.draw()
        assert [axes.get_title(loc="left") for axes in figure.axes] == [
            "trained kinds",
            "out of domain",
        ]
        assert png(figure).startswith(b"\x89PNG")


def test_the_page_gets_what_there_is_and_keeps_its_prose(
    results: dict[str, PrimaryResult], tmp_path: Path
) -> None:
    page = tmp_path / "primary.md"
    blocks = "".join(
        f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in ("pilot", "results")
    )
    page.write_text(f"Prose.\n\n{blocks}End.\n")
    write_page(results, page, FEW)
    text = page.read_text()
    assert text.startswith("Prose.\n")
    assert text.endswith("End.\n")
    assert "](primary/accuracy-ece-pilot.png)" in text
    assert "0 of 10 seeds have all of grpo, rlcm, rlcm-authors." in text
    assert [path.name for path in (tmp_path / "primary").iterdir()] == ["accuracy-ece-pilot.png"]
    once = text, (tmp_path / "primary" / "accuracy-ece-pilot.png").read_bytes()
    write_page(results, page, FEW)
    again = page.read_text(), (tmp_path / "primary" / "accuracy-ece-pilot.png").read_bytes()
    assert again == once
