"""Which differences the two-sample test finds nine times in ten, by simulation.

Two samples are drawn from the rollouts that exist, question by question, with replacement. The
second one is changed by some amount. A change is found if its statistic exceeds what 1 in
`LEVEL` / 4 of the unchanged draws exceed: the strictest level of Holm's test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from studies.serving.speculation.distribution import LEVEL, STATISTICS, Floats, Outcomes, Signs

DRAWS = 200
POWER = 0.9
SHIFTS = {
    "exit": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
    "length": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    "confidence": (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
    "tokens": (0.01, 0.02, 0.05, 0.1, 0.2, 0.4),
}
"""Of a share of the rollouts that another exit ends; of all lengths; of all confidences; of a share
of the tokens that are others.
"""


def smallest_found(both: Outcomes, samples: int, rng: np.random.Generator) -> dict[str, float]:
    """By outcome, the smallest of `SHIFTS` that is found with `POWER`; NaN if none is."""
    found = dict.fromkeys(SHIFTS, float("nan"))
    for name, shifts in SHIFTS.items():
        null_D = _draws(both, samples, name, 0.0, rng)
        critical = np.quantile(null_D, 1 - LEVEL / len(SHIFTS))
        for shift in shifts:
            if (_draws(both, samples, name, shift, rng) > critical).mean() >= POWER:
                found[name] = shift
                break
    return found


def _draws(
    both: Outcomes, samples: int, name: str, shift: float, rng: np.random.Generator
) -> Floats:
    own = [np.flatnonzero(both.question_N == question) for question in np.unique(both.question_N)]
    count = len(own) * samples
    signs_1N: Signs = np.repeat([1.0, -1.0], count)[None]
    value_D = np.empty(DRAWS)
    for draw in range(DRAWS):
        rows = np.array([rng.choice(rows, 2 * samples) for rows in own])
        drawn = both.take(rows.reshape(len(own), 2, samples).transpose(1, 0, 2).ravel())
        value_D[draw] = STATISTICS[name](_CHANGES[name](drawn, shift, rng), signs_1N)[0]
    return value_D


def _other_exits(own: Outcomes, shift: float, rng: np.random.Generator) -> Outcomes:
    exit_NK = own.exit_NK.copy()
    second = np.arange(len(exit_NK)) >= len(exit_NK) // 2
    budget = exit_NK[:, 2] > 0
    moved = second & budget & (rng.random(len(exit_NK)) < shift / max(budget.mean(), 1e-9))
    exit_NK[moved] = (1.0, 0.0, 0.0, 0.0)
    return replace(own, exit_NK=exit_NK)


def _shorter(own: Outcomes, shift: float, rng: np.random.Generator) -> Outcomes:
    return replace(own, length_N=_shifted(own.length_N, -shift))


def _surer(own: Outcomes, shift: float, rng: np.random.Generator) -> Outcomes:
    return replace(own, confidence_N=_shifted(own.confidence_N, shift))


def _shifted(value_N: Floats, shift: float) -> Floats:
    second = np.arange(len(value_N)) >= len(value_N) // 2
    return value_N + shift * second


def _other_tokens(own: Outcomes, shift: float, rng: np.random.Generator) -> Outcomes:
    counts_NV = own.counts_NV.copy()
    used = np.flatnonzero(counts_NV.sum(0))
    for row in range(len(counts_NV) // 2, len(counts_NV)):
        moved_V = rng.binomial(counts_NV[row].astype(np.int64), shift)
        counts_NV[row] -= moved_V
        new = rng.choice(used, int(moved_V.sum()))
        counts_NV[row] += np.bincount(new, minlength=counts_NV.shape[1])
    return replace(own, counts_NV=counts_NV)


_CHANGES: dict[str, Callable[[Outcomes, float, np.random.Generator], Outcomes]] = {
    "exit": _other_exits,
    "length": _shorter,
    "confidence": _surer,
    "tokens": _other_tokens,
}
