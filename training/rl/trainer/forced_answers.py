"""Where a rollout is cut, and what forces an answer there (RLCM §3.2, App. A)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.prompts import FORCED_ANSWER

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlcm_serve.engine.model_files import ModelFiles


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model's thinking ends, in token ids.

    Attributes:
        think_end: `</think>`; None for a model that does not think in `<think>`.
        ends: ids that end a completion.
        suffix: appended to a cut prefix; it closes the thinking, if there is any to be closed, and
            opens the forced answer.
    """

    think_end: int | None
    ends: frozenset[int]
    suffix: tuple[int, ...]

    @classmethod
    def of(
        cls, files: ModelFiles, tokenizer: PreTrainedTokenizerBase, thinks: bool | None = None
    ) -> Self:
        """Read from the model's own files.

        Args:
            files: configuration of the model.
            tokenizer: its tokenizer, with a chat template.
            thinks: whether it thinks in `<think>`; None: as its files say (`ModelText`).

        Raises:
            ModelRefused: it could not be served under exit control, or is to close its thinking and
                has no token for that.
        """
        if thinks is not None:
            files = replace(files, generation={**files.generation, "thinks": thinks})
        text = ModelText(files, tokenizer)
        if text.think_end is not None:
            return cls(text.think_end, text.end_ids, text.close(FORCED_ANSWER))
        opening = tokenizer.encode(f"\n{FORCED_ANSWER}", add_special_tokens=False)
        return cls(None, text.end_ids, tuple(opening))

    def length(self, completion: Sequence[int]) -> int:
        """Tokens of reasoning: all before `</think>`, or else before the end of the text."""
        stops = self.ends if self.think_end is None else self.ends | {self.think_end}
        return next((at for at, id_ in enumerate(completion) if id_ in stops), len(completion))

    def answered(self, completion: Sequence[int]) -> Sequence[int]:
        """What may hold the model's own answer: what follows `</think>`.

        Without such a token it is all of a completion that has come to its end.
        """
        if self.think_end is None:
            return completion if completion and completion[-1] in self.ends else ()
        if self.think_end not in completion:
            return ()
        return completion[list(completion).index(self.think_end) + 1 :]


def budgets(length: int, interval: int) -> tuple[int, ...]:
    """B(y): every `interval` tokens of a reasoning of `length` tokens, its end included.

    A budget b is the prefix of b tokens, all of them before `</think>`, as the service reads it.
    """
    return tuple(range(interval, length + 1, interval))


def shares_right(verdicts: Iterable[bool], samples: int) -> tuple[float, ...]:
    """Y_b = (1/K) Σ_k 1[â_bk = a*] of each budget, from K = `samples` verdicts after another."""
    every = list(verdicts)
    return tuple(sum(every[at : at + samples]) / samples for at in range(0, len(every), samples))
