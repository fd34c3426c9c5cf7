"""Every page can be found, and names only files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FOLDERS = "calibration|rlcm_serve|training|studies|tests|configs|deploy|docs|page|requirements"
CODE_PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
DATED = {DOCS / "decisions.md"}
"""Pages that speak of files as they were."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_page_is_in_the_navigation(page: Path) -> None:
    assert str(page.relative_to(DOCS)) in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_path_exists(page: Path) -> None:
    if page in DATED:
        pytest.skip("a log")
    paths = set(CODE_PATH.findall(page.read_text()))
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(words) > 60
    assert words == sorted(words, key=str.lower)
