"""Pairs of answers with the verdict of a careful reader, from `pairs.txt`."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SPACES = {"{thin}": "\u2009", "{nbsp}": "\u00a0"}


class Pair(NamedTuple):
    """Two answers, and whether they are the same."""

    category: str
    same: bool
    answer: str
    other: str


def read_pairs() -> Iterator[Pair]:
    """All pairs of the file."""
    category = ""
    for line in Path(__file__).with_name("pairs.txt").read_text("utf-8").splitlines():
        if line.startswith("## "):
            category = line[3:]
        elif line and not line.startswith("#"):
            for mark, space in _SPACES.items():
                line = line.replace(mark, space)
            sign, answer, other = line.split(" || ")
            yield Pair(category, sign == "=", answer, other)
