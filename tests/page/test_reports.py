"""Pages of `rlcm eval` and `rlcm compare` in a real Chromium: what fits, what is drawn where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from rlcm_serve.evaluation.compare import compare, write_comparison
from rlcm_serve.evaluation.measuring.measures import RunMeasures
from rlcm_serve.evaluation.report import write_report
from rlcm_serve.evaluation.sources import Source
from tests.page.visitor import SCHEMES, WIDTHS
from tests.rlcm_serve.evaluation.measured import measured_run

pytestmark = pytest.mark.page

ROOT = Path(__file__).parents[2]
FEW = (Source.PROBE, Source.AGREEMENT, Source.VERBALIZED)
OUTSIDE = """() => [...document.querySelectorAll("figure svg")].flatMap((drawn) => {
  const room = drawn.getBoundingClientRect();
  return [...drawn.querySelectorAll("use, path, g[id*=text], text")].filter((mark) => {
    if (mark.closest("defs, clipPath")) return false;
    const box = mark.getBoundingClientRect();
    if (!box.width && !box.height) return false;
    return box.left < room.left - 1 || box.right > room.right + 1
      || box.top < room.top - 1 || box.bottom > room.bottom + 1;
  }).map((mark) => `${drawn.closest("figure").previousElementSibling.id}: ${mark.tagName}`);
})"""
"""Marks and labels that leave the box of their figure, where nobody sees them."""


def shipped() -> RunMeasures:
    text = (ROOT / "studies/results/evaluation-embedded.json").read_bytes()
    return msgspec.json.decode(text, type=RunMeasures)


def small(benchmarks: tuple[str, ...], n_problems: int) -> RunMeasures:
    run = measured_run(benchmarks=benchmarks, sources=FEW, n_problems=n_problems, n_rollouts=3)
    return run.measures


PAGES = {
    "eval": lambda out: write_report(shipped(), out),
    "eval-few": lambda out: write_report(
        measured_run(n_problems=8, n_rollouts=2, sources=FEW).measures, out
    ),
    "eval-several": lambda out: write_report(
        measured_run(
            benchmarks=("math500", "aime24"), n_problems=24, n_rollouts=3, sources=FEW
        ).measures,
        out,
    ),
    "compare": lambda out: write_comparison(
        compare([measured_run("warm", 0, n_rollouts=3), measured_run("cool", 1, n_rollouts=3)]),  # type: ignore[list-item]
        out,
    ),
}


@pytest.fixture(scope="module", params=PAGES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return PAGES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture
def page(chromium: Browser, report: Path) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    opened.goto(report.as_uri())
    yield opened
    context.close()


def open_all(page: Page) -> None:
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => one.open = true)")


def test_the_summary_fits_one_screen(page: Page) -> None:
    ends: Any = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('main > *')]"
        ".map((part) => part.getBoundingClientRect().bottom))"
    )
    assert ends <= 800
    assert page.locator("main > details").count() >= 5
    assert page.locator("main > details[open]").count() == 0


def test_a_click_unfolds_a_section(page: Page) -> None:
    section = page.locator("main > details").first
    assert not section.locator("figure, table").first.is_visible()
    section.locator("summary").first.click()
    assert section.locator("figure, table").first.is_visible()


def test_nothing_is_wider_than_the_screen(page: Page, pictures: Path, report: Path) -> None:
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=pictures / f"{report.parent.name}-{width}-{scheme}.png")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    open_all(page)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_no_mark_or_label_leaves_its_figure(page: Page) -> None:
    open_all(page)
    assert page.locator("figure svg").count() >= 3
    assert page.evaluate(OUTSIDE) == []


def test_print_shows_what_is_folded(page: Page) -> None:
    page.emulate_media(media="print")
    assert page.locator("main > details figure").first.is_visible()
