"""The blocks of code in a page of Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S.*) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: its language (may be empty), and the stated reason for not running it."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def read_page(path: Path) -> list[Block]:
    """All blocks of a page, in order."""
    return read_blocks(path.name, path.read_text())


def read_blocks(page: str, markdown: str) -> list[Block]:
    """All blocks of this text, in order; an indented block has the language `indented`."""
    blocks: list[Block] = []
    lines = markdown.splitlines()
    said = ""  # the last line outside of blocks that is not blank
    number = 0
    while number < len(lines):
        line, start = lines[number], number + 1
        number += 1
        if line.startswith("```"):
            end = next(n for n in range(number, len(lines)) if lines[n].startswith("```"))
            language, text = line[3:].strip(), "\n".join(lines[number:end])
            number = end + 1
        elif line.startswith("    ") and line.strip() and not _in_list(said):
            language, text = "indented", line
        else:
            said = line if line.strip() else said
            continue
        marked = NOT_RUN.fullmatch(said)
        blocks.append(Block(page, start, language, text, marked and marked["reason"]))
        said = ""
    return blocks


def _in_list(said: str) -> bool:
    return re.match(r"\s*([-*]|\d+\.) ", said) is not None
