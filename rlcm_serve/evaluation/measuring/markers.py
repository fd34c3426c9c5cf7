"""Counts epistemic markers: phrases that express doubt in reasoning (RLCM App. E).

Not covered: the meaning in context. A phrase that quotes the question, is negated or is a habit of
style counts like any other. So a count describes how a model writes, not how uncertain it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Category(StrEnum):
    """What a marker expresses."""

    SELF_CORRECTION = "self-correction"
    HEDGING = "hedging"
    KNOWLEDGE_GAP = "knowledge-gap"


PHRASES: dict[Category, tuple[str, ...]] = {
    Category.SELF_CORRECTION: (
        "wait", "hmm", "hold on", "let me reconsider", "let me redo", "let me think",
        "let me verify", "let's recalculate", "actually", "on second thought", "going back",
        "scratch that", "I made a mistake", "that's wrong", "that was wrong",
    ),
    Category.HEDGING: (
        "perhaps", "maybe", "might", "possibly", "likely", "unlikely", "probably", "could be",
        "tends to", "I think", "I believe", "I guess", "I suspect", "it seems", "seems like",
        "seems to", "it appears", "apparently", "presumably", "approximately", "roughly", "around",
        "should be", "I'm not certain", "I'm unsure",
    ),
    Category.KNOWLEDGE_GAP: (
        "I'm not sure", "not sure", "I don't know", "unclear", "without more", "not specified",
        "I cannot", "I can't",
    ),
}  # fmt: skip
"""The complete list of RLCM App. E, in its order."""

INDICATORS: tuple[str, ...] = tuple(phrase for listed in PHRASES.values() for phrase in listed)
"""Every phrase (I), in the order of all counts."""

CATEGORY_OF: dict[str, Category] = {
    phrase: category for category, listed in PHRASES.items() for phrase in listed
}

_INDEX = {phrase.lower(): i for i, phrase in enumerate(INDICATORS)}
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\uff07", "'"))


def count(text: str) -> NDArray[np.int64]:
    """How often each of `INDICATORS` (I) occurs in a text.

    Only whole words match, in any case, with any apostrophe and any white space between words.
    Where several phrases begin, the longest one counts, and no word counts twice: "I'm not sure"
    does not count as "not sure", and "it seems to" is one marker.
    """
    found = _PATTERN.findall(text.lower().translate(_APOSTROPHES))
    index = [_INDEX[phrase if phrase in _INDEX else " ".join(phrase.split())] for phrase in found]
    return np.bincount(np.array(index, dtype=np.intp), minlength=len(INDICATORS))


def count_all(texts: Iterable[str]) -> NDArray[np.int64]:
    """The counts of many texts (T): an array of shape (T, I)."""
    rows = [count(text) for text in texts]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(INDICATORS))


def by_category(count_TI: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts per category, in the order of `Category`: an array of shape (T, 3)."""
    first_I = np.cumsum([0, *(len(listed) for listed in PHRASES.values())])[:-1]
    return np.add.reduceat(count_TI, first_I, axis=1)


def _pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    """One branch per first letter, so that most letters are skipped quickly."""
    by_letter: dict[str, list[str]] = {}
    for phrase in sorted(phrases, key=len, reverse=True):
        words = r"\s+".join(map(re.escape, phrase.lower().split()))
        by_letter.setdefault(words[0], []).append(words[1:])
    branches = (f"{letter}(?:{'|'.join(rest)})" for letter, rest in sorted(by_letter.items()))
    letters = "".join(sorted(by_letter))
    return re.compile(rf"\b(?=[{letters}])((?:{'|'.join(branches)}))\b")


_PATTERN = _pattern(INDICATORS)
