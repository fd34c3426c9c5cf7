"""Programs in fenced blocks."""

from __future__ import annotations

import re

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
        """The last fenced block."""
        blocks = _BLOCK.findall(text)
        return blocks[-1].strip("\n") or None if blocks else None

    def find_cut(self, text: str) -> str | None:
        """As `find`: a block that closes is whole."""
        return self.find(text)

    def close(self, continuation: str, complete: bool = True) -> str | None:
        """The text before the fence that closes the block."""
        end = _END.search(continuation)
        return continuation[: end.start()].strip("\n") or None if end else None

    def shown(self, continuation: str, answer: str) -> str:
        """The program in a fenced block."""
        return f"{FENCE}python\n{answer}\n{FENCE}"
