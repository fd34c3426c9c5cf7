"""Decodes tokens as they arrive; text that was returned never changes later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a tokenizer returns for bytes that do not form a whole character (yet)."""


class TextStream:
    """Decodes one sequence piece by piece; the pieces together are the text of all its tokens.

    A token may hold part of a character, or decode differently after another token. So the last
    tokens are decoded with and without the new ones; the difference is the new text. A text of many
    unfinished characters is decoded again only when it has grown by a quarter, so that the work is
    linear in its tokens.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, skip_special_tokens: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._window: list[int] = []
        self._returned = 0  # tokens of the window whose text was returned
        self._next = 0  # tokens that the window must have to be decoded again

    def push(self, ids: Sequence[int]) -> str:
        """The text that these tokens add; the first bytes of a character wait for its last byte."""
        self._window += ids
        if len(self._window) < self._next:
            return ""
        added = self._added()
        if not added or added.endswith(_UNFINISHED):
            held = len(self._window) - self._returned
            self._next = len(self._window) + max(1, held // 4)
            return ""
        self._window = self._window[self._returned :]
        self._returned = len(self._window)
        self._next = 0
        return added

    def flush(self) -> str:
        """The text that is still held back, after the last token."""
        added = self._added()
        self._returned = len(self._window)
        return added

    def _added(self) -> str:
        before = self._decode(self._window[: self._returned])
        return self._decode(self._window)[len(before) :]

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=self._skip_special_tokens)
        return text
