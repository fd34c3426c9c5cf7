"""Traces with one rollout of one reading for each problem, whose risks are known by design."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibration import Traces


def one_reading(
    wrong_P: NDArray[np.bool_],
    confidence_P: NDArray[np.float64],
    groups: tuple[str | None, ...] | None = None,
    kinds: tuple[str | None, ...] | None = None,
) -> Traces:
    """Problems (P) that think for one token, and whose answer costs one.

    Args:
        wrong_P: whether the answer is wrong.
        confidence_P: the reading.
        groups: the group of each problem; None for none.
        kinds: the kind of each problem; None for none.
    """
    n = len(wrong_P)
    ones_P1 = np.ones((n, 1), dtype=np.int64)
    return Traces(
        fingerprint=None,
        problem_ids=tuple(f"p{i:06d}" for i in range(n)),
        groups=groups or (None,) * n,
        problem_R=np.arange(n),
        rollout_R=np.zeros(n, dtype=np.int64),
        natural_R=np.ones(n, dtype=np.bool_),
        final_R=np.zeros(n, dtype=np.intp),
        tokens_RC=ones_P1,
        confidence_RC=confidence_P[:, None],
        answer_class_RC=0 * ones_P1,
        answer_tokens_RC=ones_P1,
        correct_RC=~wrong_P[:, None],
        kinds=kinds,
    )
