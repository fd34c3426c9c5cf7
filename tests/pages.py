"""Parses and checks HTML pages for tests."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Self


@dataclass
class Parsed(HTMLParser):
    """The parts of a page that tests check."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    open_tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of(cls, path: Path) -> Self:
        parsed = cls()
        parsed.feed(path.read_text("utf-8"))
        assert parsed.open_tags == []
        return parsed

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open_tags.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).replace("\N{NO-BREAK SPACE}", " ").split())


def check_self_contained(path: Path) -> None:
    """Checks that the page has no script and loads nothing from other files or hosts."""
    parsed = Parsed.of(path)
    assert not parsed.all("script")
    assert not parsed.all("link")
    for _, attributes in parsed.tags:
        for name in ("href", "xlink:href", "src"):
            assert attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))
        assert all("url(" not in v.replace("url(#", "") for v in attributes.values() if v)
    (style,) = re.findall("<style>(.*?)</style>", path.read_text("utf-8"), flags=re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style


def check_references(path: Path) -> None:
    """Checks that every id is unique and every reference has a target."""
    text = path.read_text("utf-8")
    ids = [attributes["id"] for _, attributes in Parsed.of(path).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', text)) <= set(ids)


def check_readable_unseen(path: Path) -> None:
    """Checks for language, heading order, figure texts, table captions and table heads."""
    parsed = Parsed.of(path)
    assert parsed.all("html") == [{"lang": "en"}]
    headings = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    drawn = [svg for svg in parsed.all("svg") if svg.get("role") == "img"]
    assert len(drawn) == len(parsed.all("figure"))
    alts = re.findall(r'<title id="([^"]+)">([^<]+)</title>', path.read_text("utf-8"))
    assert {svg["aria-labelledby"] for svg in drawn} == {name for name, _ in alts}
    assert all(len(alt) > 60 for _, alt in alts)
    assert all("scope" in head for head in parsed.all("th"))
    assert len(parsed.all("caption")) == len(parsed.all("table"))
