"""The design of the study, fixed before its runs (docs/studies/paper-within.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from studies.paper.primary.design import ENDPOINTS, PILOT_SEEDS, PrimaryRun
from studies.paper.primary.problems import HELD_OUT, TRAINED, Cell, problems_by_file
from training.errors import TrainingRefused
from training.tasks.conflicts import SUFFIX
from training.tasks.problems import Problem, Split

REFERENCE = "rlcm"
IDEAS = ("rlcm-ranking", "rlcm-between", "rlcm-variance", "rlcm-rising")
PILOT_METHODS = ("grpo", REFERENCE, *IDEAS)
"""The first two come from the primary comparison's pilot."""
FRESH_SEEDS = tuple(range(200, 210))
"""Seeds of the confirmation."""

DECIDING = "AUROC within a question"
CONFIRMED = tuple(one for one in ENDPOINTS if one.name in (DECIDING, "accuracy"))
"""Endpoints of the confirmation: it differs from RLCM's, and the accuracy is not lower."""

FRESH_TEST_SEED = 1


def pilot_runs() -> Iterator[PrimaryRun]:
    """Every idea on the pilot's seeds, seed by seed."""
    for seed in PILOT_SEEDS:
        for method in IDEAS:
            yield PrimaryRun(method, seed)


def confirming_runs(method: str) -> Iterator[PrimaryRun]:
    """RLCM and one idea on fresh seeds.

    Raises:
        TrainingRefused: the method is not one of the ideas.
    """
    if method not in IDEAS:
        raise TrainingRefused(
            f"{method!r} is no idea of this study: give one of {', '.join(IDEAS)}"
        )
    for seed in FRESH_SEEDS:
        for name in (REFERENCE, method):
            yield PrimaryRun(name, seed)


def run_named(name: str) -> PrimaryRun:
    """The run of that name, of the pilot or of a confirmation.

    Raises:
        TrainingRefused: there is none; the message lists the names.
    """
    every = [*pilot_runs(), *(run for method in IDEAS for run in confirming_runs(method))]
    known = {run.name: run for run in every}
    if name not in known:
        raise TrainingRefused(f"{name!r} is no run: give one of {', '.join(known)}")
    return known[name]


def fresh_problems() -> dict[str, list[Problem]]:
    """The primary comparison's problems with another test, of as many problems of each kind.

    No problem of the new test is in the first one.
    """
    files = problems_by_file()
    known = {problem.id for problem in files["test"]}
    counts = Counter((problem.family, problem.level) for problem in files["test"])
    test = []
    for cell in (*TRAINED, *HELD_OUT):
        count = counts[_family(cell), cell.level]
        drawn = cell.sample(Split.TEST, 2 * count, FRESH_TEST_SEED)
        test += [problem for problem in drawn if problem.id not in known][:count]
    return files | {"test": test}


def _family(cell: Cell) -> str:
    """The family's name in the problems of a cell."""
    return f"{cell.family}{SUFFIX if cell.conflicts else ''}"
