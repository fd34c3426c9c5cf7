"""The budgets at which a rollout is cut, and the text that forces an answer (RLCM §3.2, App. A)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.prompts import FORCED_ANSWER
from training.rl.settings import BudgetSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlcm_serve.engine.model_files import ModelFiles


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model's thinking ends, in token ids.

    Attributes:
        think_end: id of the token that ends the thinking; None for a model that marks none.
        ends: ids that end a completion.
        suffix: appended to a cut prefix. It closes the thinking, if the model marks it, and opens
            the forced answer.
    """

    think_end: int | None
    ends: frozenset[int]
    suffix: tuple[int, ...]

    @classmethod
    def of(
        cls, files: ModelFiles, tokenizer: PreTrainedTokenizerBase, thinking: str | None = None
    ) -> Self:
        """Reads the ids from the model's files.

        Args:
            files: configuration of the model.
            tokenizer: the model's tokenizer, with a chat template.
            thinking: name of the thinking format; None: as the model's files and prompts say.

        Raises:
            ModelRefused: the model cannot be served under exit control, or its thinking format is
                not known or does not fit.
        """
        text = ModelText(files, tokenizer, thinking=thinking)
        return cls(text.think_end, text.end_ids, text.close(FORCED_ANSWER))

    def length(self, completion: Sequence[int]) -> int:
        """Tokens of reasoning: all before `think_end`, or before the end if there is none."""
        stops = self.ends if self.think_end is None else self.ends | {self.think_end}
        return next((at for at, id_ in enumerate(completion) if id_ in stops), len(completion))

    def answered(self, completion: Sequence[int]) -> Sequence[int]:
        """The part that may contain the model's own answer: the tokens after `think_end`.

        A model without that token may answer anywhere, but only in a completion that ended.
        """
        if self.think_end is None:
            return completion if completion and completion[-1] in self.ends else ()
        if self.think_end not in completion:
            return ()
        return completion[list(completion).index(self.think_end) + 1 :]


def cut_points(length: int, settings: BudgetSettings) -> tuple[int, ...]:
    """B(y) of `length` tokens of reasoning: by fractions, if the settings have any."""
    if settings.fractions:
        return relative_budgets(length, settings.fractions)
    return budgets(length, settings.interval)


def relative_budgets(length: int, fractions: Sequence[float]) -> tuple[int, ...]:
    """B(y) as the authors' code has it: fractions of `length`, rounded, without 0, each once."""
    cuts = {round(length * fraction) for fraction in fractions}
    return tuple(sorted(cuts - {0}))


def budgets(length: int, interval: int) -> tuple[int, ...]:
    """B(y): every `interval` tokens of reasoning of `length` tokens, up to and with its end.

    Budget b means the first b tokens, all before `think_end`; the service counts the same way.
    """
    return tuple(range(interval, length + 1, interval))


def in_batches(
    prefixes: Sequence[list[int]], samples: int, at_once: int
) -> Iterator[Sequence[list[int]]]:
    """The prefixes in parts of at most `at_once`; `samples` equal ones, no more, stay together."""
    most = at_once // samples * samples
    for first in range(0, len(prefixes), most):
        yield prefixes[first : first + most]


def shares_right(verdicts: Iterable[bool], samples: int) -> tuple[float, ...]:
    """Y_b = (1/K) Σ_k 1[â_bk = a*] of each budget, from K = `samples` consecutive verdicts."""
    every = list(verdicts)
    return tuple(sum(every[at : at + samples]) / samples for at in range(0, len(every), samples))
