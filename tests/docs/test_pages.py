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
TOP = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
LINK = re.compile(r"\]\(([^)\s]*\.md)?#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


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


@pytest.mark.parametrize("page", [*PAGES, *TOP], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_section_that_is_linked_exists(page: Path) -> None:
    links = [
        (page.parent / name if name else page, at) for name, at in LINK.findall(page.read_text())
    ]
    assert [(file.name, at) for file, at in links if at not in anchors_of(file)] == []


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = HEADING.findall(page.read_text()) if page.exists() else []
    plain = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(words) > 60
    assert words == sorted(words, key=str.lower)
