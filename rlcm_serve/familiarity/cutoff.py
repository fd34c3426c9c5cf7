"""The cutoff up to which a p-value counts as unfamiliar, and what it promises.

Take n ranking problems that the score was not fitted on, exchangeable with the questions to come.
If a question is flagged where its score is above the k-th largest of theirs, the rate of flagged
questions is Beta(k, n + 1 - k) over the draw of the ranking problems (Vovk 2012, arXiv 1209.2673;
ties only lower it). The cutoff is the largest k with which this rate is at most epsilon with the
given confidence.
"""

from __future__ import annotations

import math

from scipy.stats import beta


def flagged_ranks(n: int, epsilon: float, confidence: float) -> int:
    """The largest k as above; 0 if `n` is too small to flag anything."""
    k = 0
    while k < n and beta.cdf(epsilon, k + 1, n - k) >= confidence:
        k += 1
    return k


def fewest_ranking_problems(epsilon: float, confidence: float) -> int:
    """The smallest n with which something may be flagged: 1 - (1 - epsilon)^n >= confidence."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-epsilon))
