"""The tokens of rollouts: what each was drawn from, and how likely it was there.

A row of a chunked or resumed prefill samples a token that is thrown away. So what a token is drawn
from is kept until the token is the last one of its request, and only then it counts.

Imports neither torch nor vLLM: tensors come from whoever calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rlcm_serve.engine.worker.readings import Readings
from rlcm_serve.engine.worker.signals import TOP_TOKENS, TokenFigures, window_of

if TYPE_CHECKING:
    import torch


class Distributions:
    """The next token's distribution in some rows of a batch (N), over the vocabulary (V)."""

    def __init__(self, log_probs_NV: torch.Tensor, confidence_N: torch.Tensor) -> None:
        self._log_probs_NV, self._confidence_N = log_probs_NV, confidence_N

    @classmethod
    def of(cls, logits_NV: torch.Tensor) -> Distributions:
        """Those that raw logits make, at temperature 1; the logits may change afterwards."""
        log_probs_NV = logits_NV.float().log_softmax(dim=-1)
        top = min(TOP_TOKENS, log_probs_NV.shape[1] - 2)  # the two stop ids are impossible
        top_NK = log_probs_NV.topk(top, dim=-1, sorted=False).values
        return cls(log_probs_NV, -top_NK.mean(dim=-1))

    def figures(self, rows: Sequence[int], drawn: Sequence[int]) -> list[tuple[float, float]]:
        """Of rows that drew these tokens: the token's log-probability, and its C_i."""
        log_probs = self._log_probs_NV[list(rows), list(drawn)].tolist()
        return list(zip(log_probs, self._confidence_N[list(rows)].tolist(), strict=True))

    def entropy(self, row: int) -> float:
        """Of one row, nats."""
        log_probs_V = self._log_probs_NV[row]
        # What is impossible adds nothing: the limit of p log p is 0.
        return -float((log_probs_V.exp() * log_probs_V).nan_to_num(0.0).sum())

    def only(self, row: int) -> Distributions:
        """One row alone, so that the others' memory can go."""
        own = slice(row, row + 1)
        return Distributions(self._log_probs_NV[own].clone(), self._confidence_N[own].clone())


class FollowedTokens:
    """The tokens of one rollout that count, and what the next one is drawn from."""

    def __init__(self, readings: Readings, interval: int) -> None:
        self.readings = readings
        self.figures = TokenFigures(window_of(interval))
        self.drawn_from: Distributions | None = None
        self.row = -1  # of `drawn_from`

    def leave_batch(self) -> None:
        """Keeps its own row alone."""
        if self.drawn_from is not None:
            self.drawn_from, self.row = self.drawn_from.only(self.row), 0


class Follow(NamedTuple):
    """A rollout that has `length` tokens, the last of them this one, and a row of the batch."""

    tokens: FollowedTokens
    row: int
    length: int
    last: int | None


def follow_tokens(follow: Sequence[Follow], logits_NV: torch.Tensor) -> None:
    """Counts in the last tokens, where they are new, and keeps what the next are drawn from."""
    _count_in(one for one in follow if one.length != one.tokens.figures.count)
    distributions = Distributions.of(logits_NV[[one.row for one in follow]])
    for row, one in enumerate(follow):
        one.tokens.drawn_from, one.tokens.row = distributions, row
        one.tokens.readings.follow(one.length, one.tokens.figures.read())


def _count_in(new: Iterable[Follow]) -> None:
    """Those that were drawn in the same step together: nearly always all of them."""
    together: dict[Distributions, list[tuple[FollowedTokens, int]]] = {}
    for tokens, _, length, last in new:
        if tokens.drawn_from is None or last is None or length != tokens.figures.count + 1:
            # Nobody saw it drawn, and a mean of the others would be no signal of this rollout.
            tokens.figures.lose(length)
        else:
            together.setdefault(tokens.drawn_from, []).append((tokens, last))
    for drawn_from, drawn in together.items():
        rows, last_tokens = [tokens.row for tokens, _ in drawn], [last for _, last in drawn]
        figures = drawn_from.figures(rows, last_tokens)
        for (tokens, _), (log_prob, confidence) in zip(drawn, figures, strict=True):
            tokens.figures.add(log_prob, confidence)
