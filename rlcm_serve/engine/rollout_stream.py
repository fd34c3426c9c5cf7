"""The text of one sample as its tokens arrive: its thinking, then the model's own answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcm_serve.core import Delta
from rlcm_serve.engine.text_stream import TextStream
from rlcm_serve.engine.thinking.base import Part, Reader

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class RolloutCount:
    """The tokens of a rollout, then of the model's own answer, as they arrive; without their text.

    Tokens count as thinking up to and with `think_end`, and as the answer from there on. Without
    `think_end` they all count as thinking.
    """

    def __init__(self, think_end: int | None) -> None:
        self._think_end = think_end
        self._thinks = True

    def push(self, ids: Sequence[int]) -> list[Delta]:
        """What these tokens add to the rollout, to the answer, or to both."""
        if not self._thinks:
            return [Delta(len(ids), self._answered(ids), is_answer=True)]
        if self._think_end is None or self._think_end not in ids:
            return [Delta(len(ids), self._thought(ids), ids=tuple(ids))]
        end = ids.index(self._think_end)
        text = self._thought(ids[:end], ids[end])
        self._thinks = False
        rest = ids[end + 1 :]
        thought = Delta(end + 1, text, ids=tuple(ids[:end]))
        return [thought, *(self.push(rest) if rest else ())]

    def flush(self) -> list[Delta]:
        """What is still held back, at the end of the sample."""
        return []

    def _thought(self, ids: Sequence[int], closing: int | None = None) -> str:
        return ""

    def _answered(self, ids: Sequence[int]) -> str:
        return ""


class RolloutStream(RolloutCount):
    """The same with the text of the tokens, without markup."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, reader: Reader, think_end: int | None
    ) -> None:
        super().__init__(think_end)
        self._rollout = TextStream(tokenizer)
        self._answer = TextStream(tokenizer, skip_special_tokens=True)
        self._reader = reader

    def flush(self) -> list[Delta]:
        """The text that is still held back, at the end of the sample."""
        rest = self._rollout.flush() if self._thinks else self._answer.flush()
        return [Delta(0, rest, is_answer=not self._thinks)] if rest else []

    def _thought(self, ids: Sequence[int], closing: int | None = None) -> str:
        # An answer without thinking before it is the rollout's text too, as it counts as such.
        text = self._rollout.push(texts_of(self._reader, ids, Part.THINKING, Part.ANSWER))
        if closing is None:
            return text
        self._reader.push(closing)
        return text + self._rollout.flush()

    def _answered(self, ids: Sequence[int]) -> str:
        return self._answer.push(texts_of(self._reader, ids, Part.ANSWER))


def texts_of(reader: Reader, ids: Sequence[int], *kinds: Part) -> list[int]:
    """The next ids of a sample without those that belong to other parts."""
    return [id_ for id_, part in zip(ids, reader.read(ids), strict=True) if part in kinds]
