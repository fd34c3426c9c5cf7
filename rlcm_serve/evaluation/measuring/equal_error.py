"""Which source is cheapest: tokens at equal error, along each source's exits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Frontier

ALLOWED = (0.0, 0.005, 0.01, 0.02, 0.05)
"""Error above that of the full budget, as shares of all questions."""
_ROUNDING = 1e-12


def error_levels(benchmark: BenchmarkMeasures) -> tuple[float, ...]:
    """Errors at which sources are compared: that of the full budget, and a few higher ones."""
    full = full_error(benchmark)
    return tuple(full + more for more in ALLOWED)


def full_error(benchmark: BenchmarkMeasures) -> float:
    """Share wrong at the full budget: the first point of any source's frontier."""
    return max(frontier.error[0] for frontier in benchmark.plain_frontiers)


def tokens_at(frontier: Frontier, error: float) -> float | None:
    """Share of the full budget's tokens at which the error reaches a level; see `crossings`.

    None if even the full budget errs more often. The share describes these problems and promises
    nothing for others.
    """
    tokens_BT, error_BT = np.array([frontier.tokens]), np.array([frontier.error])
    (found,) = crossings(tokens_BT, error_BT, np.array([error]))
    return None if np.isnan(found) else float(found)


def crossings(
    tokens_BT: NDArray[np.float64], error_BT: NDArray[np.float64], level_B: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Tokens at which the error reaches a level, for each of several frontiers (B).

    The threshold falls (T) from the one that never fires until the error first exceeds the level;
    the crossing is interpolated. Lower thresholds are not searched, because a return below the
    level would be luck. NaN if the error exceeds the level from the beginning; the last tokens if
    it never does.
    """
    rows = np.arange(len(level_B))
    over_BT = error_BT > level_B[:, None] + _ROUNDING
    after = np.where(over_BT.any(axis=1), over_BT.argmax(axis=1), error_BT.shape[1])
    before = np.clip(after - 1, 0, None)
    after = np.minimum(after, error_BT.shape[1] - 1)
    low, high = error_BT[rows, before], error_BT[rows, after]
    rises = high > low
    way = np.where(rises, (level_B - low) / np.where(rises, high - low, 1.0), 0.0)
    way = np.clip(way, 0.0, 1.0)
    found = tokens_BT[rows, before] + way * (tokens_BT[rows, after] - tokens_BT[rows, before])
    return np.where(over_BT[:, 0], np.nan, found)
