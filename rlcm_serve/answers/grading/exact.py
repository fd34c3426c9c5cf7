"""Answers that must be written as the reference; case and white space do not count."""

from __future__ import annotations

import unicodedata

from rlcm_serve.answers.grading.base import KeyedGrader
from rlcm_serve.errors import RequestRefused


class ExactGrader(KeyedGrader):
    """Equal texts after folding case, white space and Unicode's compatibility forms."""

    name = "exact 1"

    def check_reference(self, reference: str) -> None:
        """Accepts any text that is not empty.

        Raises:
            RequestRefused: it is empty.
        """
        if not reference.strip():
            raise RequestRefused("data", f"the reference answer {reference!r} is empty")

    def is_right(self, answer: str, reference: str) -> bool:
        """Whether both have the same key."""
        return folded(answer) == folded(reference)

    def key(self, answer: str) -> str:
        """The folded text."""
        return folded(answer)


def folded(text: str) -> str:
    """The text in lower case, with single blanks and without compatibility forms."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
