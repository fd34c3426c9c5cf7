"""The design of the study, fixed before its runs (docs/studies/paper-within.md)."""

from __future__ import annotations

from collections.abc import Iterator

from studies.paper.primary.design import (
    PILOT_SEEDS,
    REFERENCE,
    SEEDS,
    WITHIN,
    Endpoint,
    PrimaryRun,
)
from training.errors import TrainingRefused

RLCM = "rlcm"
IDEAS = ("rlcm-ranking", "rlcm-between", "rlcm-variance", "rlcm-rising")
PILOT_METHODS = (REFERENCE, RLCM, *IDEAS)
"""The first two come from the primary comparison, on its pilot's seeds."""

BEST = "rlcm-variance"
"""Of the pilot's ideas that keep RLCM's accuracy, the one that tells most within a question."""
OWN_METHODS = (REFERENCE, RLCM, BEST)
"""On seeds of their own: the first two come from the primary comparison."""
OWN_ENDPOINTS = (WITHIN, Endpoint("accuracy"))
"""What the best idea may change against RLCM; either may be shown to differ."""


def runs() -> Iterator[PrimaryRun]:
    """Every idea on the pilot's seeds, seed by seed; then the best one on seeds of its own."""
    for seed in PILOT_SEEDS:
        for method in IDEAS:
            yield PrimaryRun(method, seed)
    for seed in SEEDS:
        yield PrimaryRun(BEST, seed)


def run_named(name: str) -> PrimaryRun:
    """The run of that name.

    Raises:
        TrainingRefused: there is none; the message lists the names.
    """
    known = {run.name: run for run in runs()}
    if name not in known:
        raise TrainingRefused(f"{name!r} is no run: give one of {', '.join(known)}")
    return known[name]
