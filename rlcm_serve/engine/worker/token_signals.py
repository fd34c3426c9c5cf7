"""Counts each sampled token of a rollout, with its log-probability and confidence.

A row of a chunked or resumed prefill samples a token that vLLM discards. So the distribution is
kept until the sampled token shows up as the request's last token. Only then does the token count.

Imports neither torch nor vLLM: the caller passes the tensors.
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
        """The distributions of raw logits at temperature 1; the logits may be overwritten later."""
        log_probs_NV = logits_NV.float().log_softmax(dim=-1)
        top = min(TOP_TOKENS, log_probs_NV.shape[1] - 2)  # the two stop ids are impossible
        top_NK = log_probs_NV.topk(top, dim=-1, sorted=False).values
        return cls(log_probs_NV, -top_NK.mean(dim=-1))

    def figures(self, rows: Sequence[int], sampled: Sequence[int]) -> list[tuple[float, float]]:
        """Each sampled token's log-probability and its C_i (see `signals`), one pair per row."""
        log_probs = self._log_probs_NV[list(rows), list(sampled)].tolist()
        return list(zip(log_probs, self._confidence_N[list(rows)].tolist(), strict=True))

    def entropy(self, row: int) -> float:
        """The entropy of one row, in nats."""
        log_probs_V = self._log_probs_NV[row]
        # An impossible token adds nothing: the limit of p log p is 0.
        return -float((log_probs_V.exp() * log_probs_V).nan_to_num(0.0).sum())

    def only(self, row: int) -> Distributions:
        """A copy of one row, so that the memory of the others can be freed."""
        own = slice(row, row + 1)
        return Distributions(self._log_probs_NV[own].clone(), self._confidence_N[own].clone())


class SampledTokens:
    """The counted tokens of one rollout, and the distribution of the next one."""

    def __init__(self, readings: Readings, interval: int) -> None:
        self.readings = readings
        self.figures = TokenFigures(window_of(interval))
        self.distributions: Distributions | None = None
        self.row = -1  # of `distributions`

    def leave_batch(self) -> None:
        """Keeps only its own row of the distributions."""
        if self.distributions is not None:
            self.distributions, self.row = self.distributions.only(self.row), 0


class SampledRow(NamedTuple):
    """A rollout of `length` tokens that ends in token `last`, and its row in the batch."""

    tokens: SampledTokens
    row: int
    length: int
    last: int | None


def count_sampled(rows: Sequence[SampledRow], logits_NV: torch.Tensor) -> None:
    """Counts the last tokens that are new, and keeps the distributions of the next ones."""
    _count_new(one for one in rows if one.length != one.tokens.figures.count)
    distributions = Distributions.of(logits_NV[[one.row for one in rows]])
    for row, one in enumerate(rows):
        one.tokens.distributions, one.tokens.row = distributions, row
        one.tokens.readings.note_tokens(one.length, one.tokens.figures.read())


def _count_new(new: Iterable[SampledRow]) -> None:
    """Counts tokens together that were sampled in the same step, as nearly all of them are."""
    together: dict[Distributions, list[tuple[SampledTokens, int]]] = {}
    for tokens, _, length, last in new:
        if tokens.distributions is None or last is None or length != tokens.figures.count + 1:
            # A token was not observed. The mean of the others is no signal of this rollout.
            tokens.figures.lose(length)
        else:
            together.setdefault(tokens.distributions, []).append((tokens, last))
    for distributions, sampled in together.items():
        rows, last_tokens = [tokens.row for tokens, _ in sampled], [last for _, last in sampled]
        figures = distributions.figures(rows, last_tokens)
        for (tokens, _), (log_prob, confidence) in zip(sampled, figures, strict=True):
            tokens.figures.add(log_prob, confidence)
