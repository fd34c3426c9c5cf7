r"""Multiple choice: the option's letter or text; an answer that may mean two options is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase
from typing import Self

from rlcm_serve.answers.extraction.boxed import BoxedExtractor
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.base import KeyedGrader
from rlcm_serve.evaluation.grading.exact import folded

_WRAPPED = re.compile(r"\\(?:boxed|text|textbf|textit|textrm|mathrm|mathbf|bf|rm)\s*\{([^{}]*)\}")
_LETTER = r"(?:\(\s*(?P<a>[A-Z])\s*\)|\[\s*(?P<b>[A-Z])\s*\]|(?P<c>[A-Z]))"
_LEAD = r"(?:the\s+)?(?:(?:correct|right|final|best)\s+)?(?:answer|option|choice)\s*(?:is|:|=)?\s*"
_ALONE = re.compile(rf"(?:{_LEAD})?{_LETTER}\s*[).:,]?", re.IGNORECASE)
_BEFORE_TEXT = re.compile(
    rf"(?:{_LEAD})?{_LETTER}(?P<mark>\s*[).:\-–—]|(?<=[\])])|\s)\s*(?P<text>\S.*)",
    re.DOTALL | re.IGNORECASE,
)
_SEVERAL = re.compile(r"(?:[,;/&+]|\band\b|\bor\b)\s*\(?[A-Z]\)?\s*$", re.IGNORECASE)
_STATED = re.compile(
    rf"(?:answer|option|choice)\s*(?:is|:|=)\s*\**\s*{_LETTER}\s*\**\s*[.]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Options:
    """A reference: the options and the letter of the right one."""

    letter: str
    texts: tuple[str, ...]

    @classmethod
    def read(cls, reference: str) -> Self:
        """Reads a reference that `questions.choice_question` wrote, or a single letter.

        Raises:
            RequestRefused: it is neither.
        """
        if len(reference.strip()) == 1 and reference.strip().upper() in ascii_uppercase:
            return cls(reference.strip().upper(), ())
        try:
            plain = json.loads(reference)
            options = cls(str(plain["letter"]), tuple(map(folded, plain["options"])))
        except (ValueError, KeyError, TypeError) as error:
            raise RequestRefused(
                "data",
                f"the reference {reference[:80]!r} does not parse: give a letter, or map the "
                "column of the options",
            ) from error
        if options.letter not in options.letters or not options.letter:
            raise RequestRefused(
                "data",
                f"the right option {options.letter!r} is not one of the {len(options.texts)} "
                "options: correct the row",
            )
        return options

    @property
    def letters(self) -> str:
        return ascii_uppercase[: len(self.texts)] if self.texts else ascii_uppercase

    def chosen(self, answer: str) -> str | None:
        """The letter of the chosen option; None if the answer means none or may mean two."""
        text = unwrapped(answer)
        if found := _ALONE.fullmatch(text):
            letter = _letter(found)
            return letter if letter in self.letters else None
        if named := self._with_text(text):
            return named.pop() if len(named) == 1 else None
        found = _BEFORE_TEXT.fullmatch(text)
        if found is None or _SEVERAL.search(text) or _letter(found) not in self.letters:
            return None
        letter, rest = _letter(found), found["text"]
        if named := self._with_text(rest):
            return letter if letter in named else None
        return letter if _is_marked(found) and not _ALONE.fullmatch(rest) else None

    def _with_text(self, text: str) -> set[str]:
        """The letters of the options with this text."""
        return {self.letters[at] for at, own in enumerate(self.texts) if own == folded(text)}


class ChoiceExtractor(BoxedExtractor):
    """As `BoxedExtractor`; without a box, the letter in the last line that ends in `answer: B`."""

    spec = "choice"

    def find(self, text: str) -> str | None:
        """The box or tag, or else the stated letter."""
        if (found := super().find(text)) is not None:
            return found
        letters = [_letter(line) for line in _STATED.finditer(text)]
        return letters[-1] if letters else None


class ChoiceGrader(KeyedGrader):
    r"""Accepts `\boxed{B}`, `(B)`, `\text{B}`, `B. mitochondria`, `option B` and `mitochondria`.

    A letter before a text counts unless the text is another option's. Two letters, or a text that
    two options share, are wrong. Equal answers have the same letter; without a letter, the same
    text. An option's letter and its text are not equal.
    """

    name = "choice 1"
    extractor = ChoiceExtractor()

    def check_reference(self, reference: str) -> None:
        """As `Options.read`."""
        Options.read(reference)

    def is_right(self, answer: str, reference: str) -> bool:
        """Whether the answer chooses the right option."""
        options = _read(reference)
        return options.chosen(answer) == options.letter

    def key(self, answer: str) -> str:
        """The letter if the answer has one, else its text."""
        text = unwrapped(answer)
        found = _ALONE.fullmatch(text)
        if found is None and (before := _BEFORE_TEXT.fullmatch(text)) and _is_marked(before):
            found = before
        return _letter(found) if found else folded(text)


def unwrapped(answer: str) -> str:
    r"""The answer without `\text{}`, `\boxed{}`, `$`, `**` and a full stop at its end."""
    text = answer
    while (inner := _WRAPPED.sub(r"\1", text)) != text:
        text = inner
    text = text.strip("$*` \t\r\n")
    return text.rstrip(".").rstrip("$*` \t\r\n") or text


@lru_cache(maxsize=2**12)
def _read(reference: str) -> Options:
    return Options.read(reference)


def _is_marked(found: re.Match[str]) -> bool:
    """Whether the letter is separated from the text; in `A ribosome` it may be an article."""
    return bool(found["mark"].strip()) or found["c"] is None


def _letter(found: re.Match[str]) -> str:
    return (found["a"] or found["b"] or found["c"]).upper()
