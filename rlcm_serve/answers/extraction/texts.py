"""Answers in plain text: the last line that begins with `Answer:`, or the whole text."""

from __future__ import annotations

import re

from rlcm_serve.answers.extraction.base import Extractor

_LABEL = "Answer:"
# Possessive: no line makes it slow.
_LINE = re.compile(r"[\s>#*_-]*+(?:final\s++)?answer\s*+[*_]*+\s*+:[*_]*+", re.IGNORECASE)
_EMPHASIS = ("**", "__")


class AnswerLineExtractor(Extractor):
    """The rest of the last line that begins with `Answer:` or `Final answer:`.

    Case, Markdown's emphasis and marks of lists, quotes and headings do not count.
    """

    spec = "answer-line"
    opening = _LABEL

    def find(self, text: str) -> str | None:
        """The answer of the last such line that has one."""
        for line in reversed(text.splitlines()):
            if (found := _LINE.match(line)) and (answer := _plain(line[found.end() :])):
                return answer
        return None

    def find_cut(self, text: str) -> str | None:
        """As `find`, without the line that was cut off."""
        return self.find(whole_lines(text))

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The first line of the continuation, if the line has ended."""
        lines = continuation.lstrip().splitlines(keepends=True)
        if not lines or (len(lines) == 1 and not complete and lines[0] == lines[0].rstrip("\r\n")):
            return None
        return _plain(lines[0]) or None

    def shown(self, continuation: str, answer: str) -> str:
        """The answer in a line."""
        return f"{_LABEL} {answer}"


class TextExtractor(Extractor):
    """The whole text, without the blanks around it. A forced answer is one written at once."""

    spec = "text"

    def find(self, text: str) -> str | None:
        """The text."""
        return text.strip() or None

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The continuation, if the model ended it."""
        return self.find(continuation) if complete else None

    def shown(self, continuation: str, answer: str) -> str:
        """The answer itself."""
        return answer


def whole_lines(text: str) -> str:
    """The text without a last line that has not ended."""
    return text[: text.rfind("\n") + 1]


def _plain(text: str) -> str:
    """The text without blanks and Markdown's emphasis around it."""
    start, end, before = 0, len(text), None
    while before != (start, end):  # without a copy for each mark: a model may repeat one for long
        before = start, end
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        for mark in _EMPHASIS:
            start += len(mark) * text.startswith(mark, start, end)
            end -= len(mark) * text.endswith(mark, start, end)
    return text[start:end]
