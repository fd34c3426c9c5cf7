"""Which source is cheapest: tokens at equal error, along each source's exits."""

from __future__ import annotations

from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Frontier

ALLOWED = (0.0, 0.005, 0.01, 0.02, 0.05)
"""Error above that of the full budget, as shares of all questions."""


def error_levels(benchmark: BenchmarkMeasures) -> tuple[float, ...]:
    """Errors at which sources are compared: that of the full budget, and a few higher ones."""
    full = full_error(benchmark)
    return tuple(full + more for more in ALLOWED)


def full_error(benchmark: BenchmarkMeasures) -> float:
    """Share wrong at the full budget: the first point of any source's frontier."""
    return max(frontier.error[0] for frontier in benchmark.frontiers)


def tokens_at(frontier: Frontier, error: float) -> float | None:
    """Share of the full budget's tokens at which the error reaches a level.

    The threshold falls from the one that never fires until the error first exceeds the level; the
    crossing is interpolated. Lower thresholds are not searched, because a return below the level
    would be luck. None if even the full budget errs more often. The share describes these problems
    and promises nothing for others.
    """
    if frontier.error[0] > error + 1e-12:
        return None
    for at in range(1, len(frontier.error)):
        before, after = frontier.error[at - 1], frontier.error[at]
        if after > error + 1e-12:
            way = (error - before) / (after - before)
            return frontier.tokens[at - 1] + way * (frontier.tokens[at] - frontier.tokens[at - 1])
    return frontier.tokens[-1]
