r"""Answers in `\boxed{}`, as mathematical models write them, or between `<answer>` tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlcm_serve.answers.extraction.base import Extractor
from rlcm_serve.engine.prompts import FORCED_ANSWER

_BOX = "\\boxed{"
_BOX_OR_BRACE = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)


class BoxedExtractor(Extractor):
    r"""The last `\boxed{...}`, or without a box what RLCR's models put between `<answer>` tags."""

    spec = "boxed"
    opening = FORCED_ANSWER

    def find(self, text: str) -> str | None:
        """The answer in the last box, or else in the last tag."""
        return last_boxed(text) or _last_tagged(text)

    def find_cut(self, text: str) -> str | None:
        """As `find`: a box or tag that closes is whole."""
        return self.find(text)

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The content of the box that `opening` opened.

        None if it is empty or never closed: an answer cut short may look like a different one. If
        the model writes a box of its own into it, that box is the content, and the grader reads
        what is in it; an empty one is then a wrong answer.
        """
        for start, content in _boxes(_BOX + continuation):
            if start == len(_BOX):
                return content.strip() or None
        return None

    def shown(self, continuation: str, answer: str) -> str:
        """The answer in a box."""
        return f"{_BOX}{answer}}}"


def last_boxed(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{...}`; None if there is no box, or an empty one.

    Of nested boxes, the inner one counts.
    """
    _, content = max(_boxes(text), default=(0, ""))
    return content.strip() or None


def _last_tagged(text: str) -> str | None:
    tagged = _TAGGED.findall(text)
    return tagged[-1].strip() or None if tagged else None


def _boxes(text: str) -> Iterator[tuple[int, str]]:
    """The start and the content of each box, in the order in which the boxes close."""
    open_braces: list[int | None] = []  # start of a box; None for any other brace
    for found in _BOX_OR_BRACE.finditer(text):
        token = found.group()
        if token.startswith("\\boxed"):
            open_braces.append(found.end())
        elif token == "{":
            open_braces.append(None)
        elif token == "}" and open_braces:  # an escaped brace is content
            start = open_braces.pop()
            if start is not None:
                yield start, text[start : found.start()]
