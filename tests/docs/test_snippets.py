"""What the documentation shows can be typed as it stands, and comes back as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rlcm_serve.errors import SettingsRefused
from tests.docs.markdown import Block, read_blocks, read_page
from tests.docs.snippets import COMMAND, RUN, SHOWN, Reader, check_shown, compare_keys
from tests.served import Served

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = {f"docs/guides/{name}.md" for name in ("calibrating", "evaluating", "own-probe")}
"""What they show takes minutes."""
GENERATED = {ROOT / "docs" / "reference" / name for name in ("http.md", "cli.md")}
"""Pages that `make docs` writes."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def by_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    assert unaccounted(read_page(page)) == []


def unaccounted(blocks: list[Block]) -> list[str]:
    """What neither is run, nor says why not, nor is something to be shown."""
    found = []
    for block in blocks:
        if block.not_run is not None or block.language in RUN:
            continue
        if block.language not in SHOWN:
            found.append(f"{block}: {block.language or 'no language'}; name one that is run")
        elif COMMAND.match(block.text):
            found.append(f"{block}: a command, shown as {block.language}")
    return found


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if by_name(page) in LONG else pytest.mark.docs)
        for page in PAGES
        if any(block.not_run is None for block in read_page(page))
    ],
    ids=by_name,
)
def test_what_is_shown_works(page: Path, served: Served, tmp_path: Path) -> None:
    Reader(tmp_path, urlsplit(served.url).netloc).read(read_page(page))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    files = [page.parent / link.partition("#")[0] for link in links if not link.startswith("#")]
    missing = [file for file in files if not file.exists()]
    assert [file for file in missing if file.resolve() not in GENERATED] == []


def test_an_unmarked_block_is_found() -> None:
    page = (
        "Text.\n\n    rlcm serve\n\n```\nmake\n```\n\n```text\nrlcm serve\n```\n\n"
        "<!-- not run: starts the service -->\n\n```\nrlcm serve\n```\n\n"
        "```sh\nrlcm config\n```\n\n- a list\n\n    its second paragraph\n"
    )
    blocks = read_blocks("page.md", page)
    assert [block.language for block in blocks] == ["indented", "", "text", "", "sh"]
    assert [block.line for block in blocks] == [3, 5, 9, 15, 19]
    assert [block.not_run for block in blocks] == [None] * 3 + ["starts the service", None]
    assert [found[:15] for found in unaccounted(blocks)] == [
        "page.md, line 3",
        "page.md, line 5",
        "page.md, line 9",
    ]


def test_an_answer_with_other_members_is_found() -> None:
    shown = {"answer": "8", "samples": [{"exit": "high"}], "tally": {"8": 1.0}, "guarantee": None}
    real = {"answer": None, "samples": [{"exit": "low"}], "tally": {}, "guarantee": {"risk": "x"}}
    assert compare_keys(shown, real) == []
    assert compare_keys(shown | {"old": 1}, real) == [".old is not there"]
    assert compare_keys(shown, real | {"new": 1}) == [".new is not shown"]
    other = real | {"samples": [{"exit": "low", "tokens": 3}]}
    assert compare_keys(shown, other) == [".samples[0].tokens is not shown"]


@pytest.mark.parametrize(
    ("language", "text", "printed"),
    [
        ("json", '{"answer": ...}', ""),
        ("json", '{"answer": "8"}', '{"confidence": 0.9}'),
        ("text", "event: exit\n", "event: start\n"),
    ],
)
def test_what_is_shown_must_be_so(language: str, text: str, printed: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_shown(Block("page.md", 1, language, text), printed)


def test_a_failing_block_is_named(tmp_path: Path) -> None:
    reader = Reader(tmp_path, "localhost:9")
    works = Block("page.md", 3, "sh", "echo '{\"made\": 1}' | tee made.json  # as curl would")
    shown = Block("page.md", 5, "json", '{"made": 2}')
    reads = Block("page.md", 7, "python", "print(open('made.json').read())")
    reader.read([works, shown, reads])
    with pytest.raises(AssertionError, match=r"page\.md, line 5 does not show"):
        reader.read([works, Block("page.md", 5, "json", '{"other": 2}')])
    assert json.loads((tmp_path / "made.json").read_text()) == {"made": 1}
    fails = Block("page.md", 9, "sh", "false | cat\necho localhost:8000")
    with pytest.raises(SettingsRefused, match=r"prot.*port"):
        reader.read([Block("page.md", 9, "toml", "prot = 8000")])
    with pytest.raises(AssertionError, match=r"page\.md, line 9 ends with status 1:\n.*\n.*:9"):
        reader.read([fails])
