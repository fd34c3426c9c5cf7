"""The design of the study, fixed before its runs (docs/studies/paper-within.md)."""

from __future__ import annotations

from collections.abc import Iterator

from studies.paper.primary.design import PILOT_SEEDS, PrimaryRun
from training.errors import TrainingRefused

REFERENCE = "rlcm"
IDEAS = ("rlcm-ranking", "rlcm-between", "rlcm-variance", "rlcm-rising")
PILOT_METHODS = ("grpo", REFERENCE, *IDEAS)
"""The first two come from the primary comparison's pilot."""

DECIDING = "AUROC within a question"


def pilot_runs() -> Iterator[PrimaryRun]:
    """Every idea on the pilot's seeds, seed by seed."""
    for seed in PILOT_SEEDS:
        for method in IDEAS:
            yield PrimaryRun(method, seed)


def run_named(name: str) -> PrimaryRun:
    """The run of that name.

    Raises:
        TrainingRefused: there is none; the message lists the names.
    """
    known = {run.name: run for run in pilot_runs()}
    if name not in known:
        raise TrainingRefused(f"{name!r} is no run: give one of {', '.join(known)}")
    return known[name]
