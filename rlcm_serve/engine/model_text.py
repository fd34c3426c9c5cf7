"""Text of one model: encodes prompts, decodes reasoning and answers, knows the special ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibration import ExitReason
from rlcm_serve.core import Budget, Delta, Message, Rollout, TokenIds
from rlcm_serve.engine.conversation import Conversations
from rlcm_serve.engine.model_files import ModelFiles, spare_ids, think_end_id
from rlcm_serve.engine.prompts import FORCED_ANSWER, THINK_END
from rlcm_serve.engine.text_stream import TextStream

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ModelText:
    """A model's tokenizer and chat template, with the stop ids and the forced suffix.

    `thinks` in the generation config can say whether the model thinks in `<think>`.

    Raises:
        ModelRefused: the vocabulary has no two unused ids, or there is no chat template, or no
            token that closes the thinking.
    """

    def __init__(self, files: ModelFiles, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.think_end = think_end_id(tokenizer, files.generation.get("thinks"))
        self.stop_high, self.stop_low = spare_ids(tokenizer, files.vocabulary)
        ends = files.generation.get("eos_token_id", tokenizer.eos_token_id)
        self.end_ids = frozenset(ends if isinstance(ends, list) else [ends])
        # A model without a closing token has nothing to close.
        self._closing = f"\n{THINK_END}" if self.think_end is not None else ""
        self.suffix_text = f"{self._closing}\n{FORCED_ANSWER}"
        self._stops = self.end_ids | {self.stop_high, self.stop_low}
        self._conversations = Conversations(tokenizer)
        self.longest_token = max(map(len, tokenizer.get_vocab()))

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """A conversation in the chat template, up to where the model begins.

        Raises:
            RequestRefused: the chat template does not accept these messages.
        """
        return self._conversations.encode(messages)

    def close(self, text: str = "") -> TokenIds:
        """Tokens that close the thinking, if the model does so, then `text` on a new line."""
        closing = f"{self._closing}\n{text}" if text else self._closing
        return tuple(self.tokenizer.encode(closing, add_special_tokens=False))

    def sampled(self, ids: Sequence[int]) -> Sequence[int]:
        """New ids without the id that stopped the request."""
        return ids[:-1] if ids and ids[-1] in self._stops else ids

    def stream(self) -> RolloutStream:
        """The text of one sample as its tokens arrive."""
        return RolloutStream(self.tokenizer, self.think_end)

    def answer(self, ids: Sequence[int]) -> str:
        """The text of an answer, without special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each token of an answer adds to its text."""
        stream = TextStream(self.tokenizer, skip_special_tokens=True)
        pieces = [stream.push([id_]) for id_ in ids]
        if pieces:
            pieces[-1] += stream.flush()
        return pieces

    def rollout(self, ids: Sequence[int], stop_reason: int | str | None, budget: Budget) -> Rollout:
        """Separates the reasoning from the stop id, the closing token and the model's own answer.

        Args:
            ids: every id generated for one sample.
            stop_reason: the id that stopped the request, as vLLM reports it.
            budget: token budget of the generation.

        Returns:
            The rollout, without its readings.
        """
        kept, answer, discarded, exit_ = list(ids), list[int](), 1, ExitReason.NATURAL
        if stop_reason in (self.stop_high, self.stop_low):
            kept.pop()
            exit_ = ExitReason.HIGH if stop_reason == self.stop_high else ExitReason.LOW
            if len(kept) >= budget.thinking:
                exit_ = ExitReason.BUDGET
        elif self.think_end is not None and self.think_end in kept:
            end = kept.index(self.think_end)
            kept, answer = kept[:end], kept[end + 1 :]
        elif kept and kept[-1] in self.end_ids:
            kept.pop()
        else:
            discarded = 0
        # Without a closing token, the whole completion is both the rollout and the answer.
        written = kept if self.think_end is None and exit_ is ExitReason.NATURAL else answer
        return Rollout(
            tokens=tuple(kept),
            text=self.tokenizer.decode(kept),
            exit=exit_,
            readings=(),
            answer_text=self.answer(written) if written else None,
            answer_tokens=len(answer),
            discarded=discarded,
        )


class RolloutStream:
    """The text of a rollout, then of the model's own answer, without the closing token."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, think_end: int | None) -> None:
        self._rollout = TextStream(tokenizer)
        self._answer = TextStream(tokenizer, skip_special_tokens=True)
        self._think_end = think_end
        self._thinks = True

    def push(self, ids: Sequence[int]) -> list[Delta]:
        """What these tokens add to the rollout, to the answer, or to both."""
        if not self._thinks:
            return [Delta(len(ids), self._answer.push(ids), is_answer=True)]
        if self._think_end is None or self._think_end not in ids:
            return [Delta(len(ids), self._rollout.push(ids))]
        end = ids.index(self._think_end)
        self._thinks = False
        rollout = Delta(end + 1, self._rollout.push(ids[:end]) + self._rollout.flush())
        return [rollout, *(self.push(ids[end + 1 :]) if ids[end + 1 :] else ())]

    def flush(self) -> list[Delta]:
        """The text that is still held back, at the end of the sample."""
        rest = self._rollout.flush() if self._thinks else self._answer.flush()
        return [Delta(0, rest, is_answer=not self._thinks)] if rest else []
