"""Programs in fenced blocks."""

from __future__ import annotations

import re
from textwrap import dedent

from rlcm_serve.answers.extraction.base import Extractor

FENCE = "```"
_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_END = re.compile(r"^[ \t]*```", re.MULTILINE)


class CodeExtractor(Extractor):
    """The last fenced block of a text."""

    spec = "code"
    opening = f"If I were to give the final answer now, the final answer would be\n{FENCE}python\n"
    answer_tokens = 2048

    def find(self, text: str) -> str | None:
        """The last fenced block, without the indentation that all of it has, as in a list."""
        blocks = _BLOCK.findall(text)
        return _program(blocks[-1]) if blocks else None

    def find_cut(self, text: str) -> str | None:
        """As `find`: a block that closes is whole."""
        return self.find(text)

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The text before the fence that closes the block."""
        end = _END.search(continuation)
        return _program(continuation[: end.start()]) if end else None

    def shown(self, continuation: str, answer: str) -> str:
        """The program in a fenced block."""
        return f"{FENCE}python\n{answer}\n{FENCE}"


def _program(block: str) -> str | None:
    """The program of a block; None if it is empty."""
    program = block.strip("\n")
    # Only where it is needed: `dedent` also empties lines of blanks, which a text may hold.
    return (dedent(program) if program[:1].isspace() else program) or None
