"""Sampled rollouts with drafts against those without: are they equal in distribution?

Four outcomes of a rollout are compared: its exit, its number of tokens, its last confidence, and
its tokens. Each has a two-sample statistic: chi-squared for exits and for the counts of token ids,
Kolmogorov-Smirnov for the other two. Its p-value is that of a permutation test: if both engines
sample alike, the rollouts of a question are exchangeable, so who generated them is permuted within
each question. Holm's correction makes all four one test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from calibration.testing.fwer import holm
from studies.serving.speculation.rollouts import Seen

LEVEL = 0.05
PERMUTATIONS = 1999
VOCABULARY = 512

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.float64]
"""Of permutations (P) and rollouts (N): 1 for the first sample, -1 for the second."""


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of rollouts (N); of each question (Q), as many in every sample.

    Attributes:
        question_N: number of the question.
        exit_NK: one-hot, the exits (K).
        length_N: tokens.
        confidence_N: the last one read.
        counts_NV: of every token id.
    """

    question_N: npt.NDArray[np.int64]
    exit_NK: Floats
    length_N: Floats
    confidence_N: Floats
    counts_NV: Floats

    @classmethod
    def of(cls, rollouts: Sequence[Seen]) -> Self:
        exits = ["high", "low", "budget", "natural"]
        counts = [np.bincount(one.tokens, minlength=VOCABULARY) for one in rollouts]
        return cls(
            np.array([one.question for one in rollouts]),
            np.array([[one.exit == name for name in exits] for one in rollouts], float),
            np.array([len(one.tokens) for one in rollouts], float),
            np.array([one.readings[-1][1] for one in rollouts], float),
            np.array(counts, float),
        )

    def joined(self, other: Outcomes) -> Outcomes:
        """These rollouts, then the other ones."""
        both = ((vars(self)[name], vars(other)[name]) for name in vars(self))
        return Outcomes(*map(np.concatenate, both))

    def take(self, rows: npt.NDArray[np.int64]) -> Outcomes:
        """Some rollouts."""
        return Outcomes(*(column[rows] for column in vars(self).values()))


def chi_squared(counts_NC: Floats, signs_PN: Signs) -> Floats:
    """Of two rows of counts: the squared difference by the sum, over all columns."""
    total_C = counts_NC.sum(0)
    seen = total_C > 0
    found_P: Floats = ((signs_PN @ counts_NC[:, seen]) ** 2 / total_C[seen]).sum(1)
    return found_P


def kolmogorov_smirnov(value_N: Floats, signs_PN: Signs) -> Floats:
    """The largest difference of two distribution functions, for samples of one size."""
    order = np.argsort(value_N, kind="stable")
    ends = np.append(np.diff(value_N[order]) > 0, True)
    apart_P: Floats = np.abs(signs_PN[:, order].cumsum(1)[:, ends]).max(1)
    return apart_P / (len(value_N) / 2)


STATISTICS: dict[str, Callable[[Outcomes, Signs], Floats]] = {
    "exit": lambda own, signs_PN: chi_squared(own.exit_NK, signs_PN),
    "length": lambda own, signs_PN: kolmogorov_smirnov(own.length_N, signs_PN),
    "confidence": lambda own, signs_PN: kolmogorov_smirnov(own.confidence_N, signs_PN),
    "tokens": lambda own, signs_PN: chi_squared(own.counts_NV, signs_PN),
}


def permuted(question_N: npt.NDArray[np.int64], count: int, rng: np.random.Generator) -> Signs:
    """Signs that are permuted within each question, half of them 1."""
    signs_PN = np.empty((count, len(question_N)))
    for question in np.unique(question_N):
        own = np.flatnonzero(question_N == question)
        half = np.repeat([1.0, -1.0], len(own) // 2)
        signs_PN[:, own] = rng.permuted(np.tile(half, (count, 1)), axis=1)
    return signs_PN


def p_values(one: Outcomes, other: Outcomes, rng: np.random.Generator) -> dict[str, float]:
    """Of each statistic, for two samples of the same questions."""
    both = one.joined(other)
    signs_N = np.repeat([1.0, -1.0], [len(one.question_N), len(other.question_N)])
    signs_PN = np.vstack((signs_N, permuted(both.question_N, PERMUTATIONS, rng)))
    found = {}
    for name, statistic in STATISTICS.items():
        value_P = statistic(both, signs_PN)
        found[name] = float((value_P >= value_P[0] - 1e-9).mean())
    return found


def rejected(found: dict[str, float]) -> list[str]:
    """The outcomes whose distributions differ, by Holm's test at `LEVEL`."""
    return [
        name for name, is_it in zip(found, holm(list(found.values()), LEVEL), strict=True) if is_it
    ]
