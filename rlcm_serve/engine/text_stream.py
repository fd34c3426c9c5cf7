"""Text as tokens arrive: what it says so far never changes when more of them come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a tokenizer decodes bytes to that are no whole character, or not yet."""


class TextStream:
    """Decodes one sequence piece by piece; the pieces together are the text of all its tokens.

    A token may hold a part of a character, or decode otherwise after another one than alone. So a
    window of the last tokens is decoded with and without the new ones, and the difference is the
    text that they add.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, skip_special_tokens: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._window: list[int] = []
        self._given = 0  # tokens of the window whose text was given

    def push(self, ids: Sequence[int]) -> str:
        """The text that these tokens add; a character's first bytes wait for its last."""
        self._window += ids
        added = self._added()
        if not added or added.endswith(_UNFINISHED):
            return ""
        self._window = self._window[self._given :]
        self._given = len(self._window)
        return added

    def flush(self) -> str:
        """The text of what still waits, now that nothing follows."""
        added = self._added()
        self._given = len(self._window)
        return added

    def _added(self) -> str:
        before = self._decode(self._window[: self._given])
        return self._decode(self._window)[len(before) :]

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=self._skip_special_tokens)
        return text
