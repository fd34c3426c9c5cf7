r"""Multiple choice: a letter or the option's own text; what may mean two options is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase
from typing import Self

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.base import Grader, Pair, classes_by_key
from rlcm_serve.evaluation.grading.exact import folded
from rlcm_serve.recording.concurrency import OnProgress, ignore_progress

_WRAPPED = re.compile(r"\\(?:boxed|text|textbf|textit|textrm|mathrm|mathbf|bf|rm)\s*\{([^{}]*)\}")
_LETTER = r"(?:\(\s*(?P<a>[A-Z])\s*\)|\[\s*(?P<b>[A-Z])\s*\]|(?P<c>[A-Z]))"
_LEAD = r"(?:the\s+)?(?:(?:correct|right|final|best)\s+)?(?:answer|option|choice)\s*(?:is|:|=)?\s*"
_ALONE = re.compile(rf"(?:{_LEAD})?{_LETTER}\s*[).:,]?", re.IGNORECASE)
_BEFORE_TEXT = re.compile(
    rf"(?:{_LEAD})?{_LETTER}(?P<mark>\s*[).:\-–—]|(?<=[\])])|\s)\s*(?P<text>\S.*)",
    re.DOTALL | re.IGNORECASE,
)
_SEVERAL = re.compile(r"(?:[,;/&+]|\band\b|\bor\b)\s*\(?[A-Z]\)?\s*$", re.IGNORECASE)
_SAID = re.compile(
    rf"(?:answer|option|choice)\s*(?:is|:|=)\s*\**\s*{_LETTER}\s*\**\s*[.]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Options:
    """A reference: what there was to choose from, and the right one's letter."""

    letter: str
    texts: tuple[str, ...]

    @classmethod
    def read(cls, reference: str) -> Self:
        """The options of a reference, as `questions.choice_question` writes it; or a letter alone.

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
                f"the right option {options.letter!r} is none of the {len(options.texts)} there "
                "are: correct the row",
            )
        return options

    @property
    def letters(self) -> str:
        return ascii_uppercase[: len(self.texts)] if self.texts else ascii_uppercase

    def chosen(self, answer: str) -> str | None:
        """The letter that the answer means; None if it means none, or may mean two."""
        said = unwrapped(answer)
        if found := _ALONE.fullmatch(said):
            letter = _letter(found)
            return letter if letter in self.letters else None
        if named := self._with_text(said):
            return named.pop() if len(named) == 1 else None
        found = _BEFORE_TEXT.fullmatch(said)
        if found is None or _SEVERAL.search(said) or _letter(found) not in self.letters:
            return None
        letter, rest = _letter(found), found["text"]
        if named := self._with_text(rest):
            return letter if letter in named else None
        return letter if _is_marked(found) and not _ALONE.fullmatch(rest) else None

    def _with_text(self, text: str) -> set[str]:
        """The letters of the options that read so."""
        return {self.letters[at] for at, own in enumerate(self.texts) if own == folded(text)}


class ChoiceGrader(Grader):
    r"""`\boxed{B}`, `(B)`, `\text{B}`, `B. mitochondria`, `option B` or `mitochondria`.

    A letter before a text counts, unless that text is another option's. Two letters, or a text that
    two options share, are wrong.
    """

    name = "choice 1"

    def find(self, text: str) -> str | None:
        """As `Grader.find`; else the letter of the last line that ends in `answer: B`."""
        if (found := super().find(text)) is not None:
            return found
        said = [_letter(line) for line in _SAID.finditer(text)]
        return said[-1] if said else None

    def check_reference(self, reference: str) -> None:
        """As `Options.read`."""
        Options.read(reference)

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """As `Grader.grade`."""
        on_progress(len(pairs), len(pairs))
        return [_is_right(answer, reference) for answer, reference in pairs]

    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """By letter where there is one, else by text: an option's letter and text stay apart."""
        return classes_by_key([None if answer is None else _key(answer) for answer in answers])


def unwrapped(answer: str) -> str:
    r"""The answer without `\text{}`, `\boxed{}`, `$`, `**`, and a full stop at its end."""
    said = answer
    while (inner := _WRAPPED.sub(r"\1", said)) != said:
        said = inner
    said = said.strip("$*` \t\r\n")
    return said.rstrip(".").rstrip("$*` \t\r\n") or said


@lru_cache(maxsize=2**12)
def _read(reference: str) -> Options:
    return Options.read(reference)


def _is_right(answer: str, reference: str) -> bool:
    options = _read(reference)
    return options.chosen(answer) == options.letter


def _key(answer: str) -> str:
    said = unwrapped(answer)
    found = _ALONE.fullmatch(said)
    if found is None and (before := _BEFORE_TEXT.fullmatch(said)) and _is_marked(before):
        found = before
    return _letter(found) if found else folded(said)


def _is_marked(found: re.Match[str]) -> bool:
    """Whether the letter is set off from the text; in `A ribosome` it may be an article."""
    return bool(found["mark"].strip()) or found["c"] is None


def _letter(found: re.Match[str]) -> str:
    return (found["a"] or found["b"] or found["c"]).upper()
