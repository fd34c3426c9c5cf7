"""Answers that a regular expression finds."""

from __future__ import annotations

import logging

import regex

from rlcm_serve.answers.extraction.base import Extractor
from rlcm_serve.errors import ProfileRefused

PREFIX = "regex:"
TIME_LIMIT = 0.5
"""Seconds in which a text is searched; some patterns take for ever on some texts."""
LONGEST_TEXT = 100_000
"""Characters that are searched, from the end of a text."""

_log = logging.getLogger(__name__)


class RegexExtractor(Extractor):
    """The last match of a pattern: its first group, or the whole match of one without groups.

    The syntax is that of the package `regex`, which is Python's with extensions; flags are written
    in the pattern, such as `(?m)`. A search that takes too long finds nothing.

    Raises:
        ProfileRefused: the pattern is malformed, or matches the empty text.
    """

    is_slow = True

    def __init__(self, pattern: str) -> None:
        self.spec = f"{PREFIX}{pattern}"
        try:
            self._pattern = regex.compile(pattern)
        except (regex.error, RecursionError) as error:
            raise ProfileRefused(
                f"extractor is {self.spec!r}, which is not a regular expression: {error}"
            ) from None
        self._group = min(1, self._pattern.groups)
        if self._pattern.fullmatch("", timeout=TIME_LIMIT):
            raise ProfileRefused(
                f"extractor is {self.spec!r}, which matches a text without any character: make a "
                "part of the pattern necessary"
            )

    def find(self, text: str) -> str | None:
        """The last match that is not blank."""
        return self._last(text, len(text))

    def find_cut(self, text: str) -> str | None:
        """As `close`."""
        return self.close(text, complete=False)

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The last match; one that a cut-off text ends with might have been longer."""
        return self._last(continuation, len(continuation) - (not complete))

    def shown(self, continuation: str, answer: str) -> str:
        """All that the model wrote."""
        return continuation.strip()

    def _last(self, text: str, end: int) -> str | None:
        """The last match up to `end` that is not blank."""
        start, answer = max(0, len(text) - LONGEST_TEXT), None
        try:
            for found in self._pattern.finditer(text, start, timeout=TIME_LIMIT, concurrent=True):
                said = found[self._group]
                if found.end() <= end and said and said.strip():
                    answer = said.strip()
        except TimeoutError:
            _log.warning("searching %.80r in an answer took over %g s", self.spec, TIME_LIMIT)
            return None
        return answer
