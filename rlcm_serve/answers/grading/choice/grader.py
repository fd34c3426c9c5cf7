r"""Multiple choice: the option's letter or text; an answer that may mean two options is wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase
from typing import Self

from rlcm_serve.answers.extraction.boxed import BoxedExtractor
from rlcm_serve.answers.extraction.texts import whole_lines
from rlcm_serve.answers.grading.base import KeyedGrader
from rlcm_serve.answers.grading.choice.option_texts import forms, plain_form
from rlcm_serve.answers.grading.choice.other_words import USUAL_LETTERS, is_denied
from rlcm_serve.answers.grading.choice.stated_letters import (
    Stated,
    after_lead,
    last_said,
    letter_first,
    letter_last,
)
from rlcm_serve.errors import RequestRefused
from rlcm_serve.wrong_values import shown


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
            options = cls(str(plain["letter"]), tuple(map(str, plain["options"])))
        except (ValueError, KeyError, TypeError) as error:
            raise RequestRefused(
                "data",
                f"the reference {shown(reference)} does not parse: give a letter, or map the "
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

    @property
    def _likely_letters(self) -> str:
        """Those of the options, and the first ones, which name an option even if there is none."""
        return USUAL_LETTERS[:8] + self.letters if self.texts else USUAL_LETTERS

    def chosen(self, answer: str) -> str | None:
        """The letter of the chosen option; None if the answer means none or may mean two."""
        named = self._with_text(answer) or self._with_text(after_lead(answer))
        found = letter_first(answer, self._likely_letters)
        if found and not found.rest and found.letter in self.letters:
            named.add(found.letter)
        if named:
            return named.pop() if len(named) == 1 else None
        return self._with_letter_and_text(answer, found)

    def _with_letter_and_text(self, answer: str, first: Stated | None) -> str | None:
        """The letter before or after a text, unless the text is another option's."""
        last = letter_last(answer)
        if last and (named := self._with_text(last.rest)):
            return last.letter if last.letter in named else None
        if first and first.letter in self.letters:
            for rest in (first.rest, _inside(first.rest)):
                if named := self._with_text(rest):
                    return first.letter if first.letter in named else None
        stated = first if first and first.is_marked else last
        is_chosen = stated and stated.is_choice and stated.letter in self.letters
        return stated.letter if stated and is_chosen and not self._is_denied(stated) else None

    def _is_denied(self, stated: Stated) -> bool:
        """Whether the option is denied behind its own text."""
        own = self.texts[self.letters.index(stated.letter)] if self.texts else ""
        behind = stated.rest[len(own) :].lstrip(" ,;:()–—-")
        return stated.rest.casefold().startswith(own.casefold()) and is_denied(behind)

    def _with_text(self, text: str) -> set[str]:
        """The letters of the options with this text, in the strictest form that one has."""
        own = [forms(option) for option in self.texts]
        for strictness, form in enumerate(forms(text)):
            if named := {self.letters[at] for at in range(len(own)) if own[at][strictness] == form}:
                return named
        return set()


class ChoiceExtractor(BoxedExtractor):
    """As `BoxedExtractor`; without a box, what the last `answer: B` or `answer is B` says."""

    spec = "choice"

    def find(self, text: str) -> str | None:
        """The box or tag, or else the stated letter."""
        found = super().find(text)
        return last_said(text) if found is None else found

    def find_cut(self, text: str) -> str | None:
        """As `find`; a letter that is stated in the line that was cut off does not count."""
        found = super().find(text)
        return last_said(whole_lines(text)) if found is None else found


class ChoiceGrader(KeyedGrader):
    r"""Accepts `\boxed{B}`, `(B)`, `"B"`, `B. mitochondria`, `B, because ...` and `mitochondria`.

    A letter before or after a text counts unless the text is another option's. Two letters, a
    letter that is denied, a text that two options share, and a letter alone that is also another
    option's text are wrong. Equal answers have the same letter; without a letter, the same text. An
    option's letter and its text are not equal.
    """

    name = "choice 4"
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
        found = letter_first(answer)
        if found is None or not found.is_marked:
            found = letter_last(answer)
        if found and found.is_choice:
            return found.letter
        return plain_form(answer).casefold()


@lru_cache(maxsize=2**12)
def _read(reference: str) -> Options:
    return Options.read(reference)


def _inside(text: str) -> str:
    """The text without the brackets around it."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text
