"""The model's text: prompts in, reasoning and answers out, the ids that mean something to us."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibration import ExitReason
from rlcm_serve.core import Budget, Thought, TokenIds
from rlcm_serve.engine.model_files import ModelFiles, spare_ids, think_end_id
from rlcm_serve.prompts import FORCED_ANSWER, FORCED_SUFFIX

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PLACEHOLDER = "RLCM-PROBLEM"


class ModelText:
    """A model's tokenizer and chat template, and what this service adds to them.

    Raises:
        ModelRefused: the vocabulary has no two ids to spare.
    """

    def __init__(self, files: ModelFiles, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.think_end = think_end_id(tokenizer)
        self.stop_high, self.stop_low = spare_ids(tokenizer, files.vocabulary)
        ends = files.generation.get("eos_token_id", tokenizer.eos_token_id)
        self.end_ids = frozenset(ends if isinstance(ends, list) else [ends])
        # A model that does not close its thinking has nothing to be closed.
        self.suffix_text = FORCED_SUFFIX if self.think_end is not None else f"\n{FORCED_ANSWER}"
        self.suffix = self._encode(self.suffix_text)

    def prompt(self, problem: str) -> TokenIds:
        """One user turn in the chat template, up to where the model begins."""
        if not any(token in problem for token in self.tokenizer.get_added_vocab()):
            return self._encode(self._chat(problem))
        # Text that spells a special token stays text: it must not close the turn or the thinking.
        before, after = self._chat(_PLACEHOLDER).split(_PLACEHOLDER)
        content = self.tokenizer.encode(
            problem, add_special_tokens=False, split_special_tokens=True
        )
        return (*self._encode(before), *content, *self._encode(after))

    def answer(self, ids: Sequence[int]) -> str:
        """The text of an answer, without special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def thought(self, ids: Sequence[int], stop_reason: int | str | None, budget: Budget) -> Thought:
        """Tells the kept reasoning from the stop id, the closing token and the model's own answer.

        Args:
            ids: all that was generated for one sample.
            stop_reason: vLLM's: the id that stopped it.
            budget: what it was generated under.

        Returns:
            The thought, its checkpoints still to be filled in.
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
        # Without a closing token, the whole completion is both the thought and the answer.
        written = kept if self.think_end is None and exit_ is ExitReason.NATURAL else answer
        return Thought(
            tokens=tuple(kept),
            text=self.tokenizer.decode(kept),
            exit=exit_,
            checkpoints=(),
            answer_text=self.answer(written) if written else None,
            answer_tokens=len(answer),
            discarded=discarded,
        )

    def _chat(self, content: str) -> str:
        text: str = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return text

    def _encode(self, text: str) -> TokenIds:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))
