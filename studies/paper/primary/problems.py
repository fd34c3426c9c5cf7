"""The problems of the primary comparison: what is trained on, what probes learn from, and the test.

Levels are those where the warm start is right in 30% to 60% at the training's temperature. In half
of the training problems two premises conflict, so that no model can be right in more than half of
them. Training sees no `tale`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from calibration.files import write_text
from training.tasks.conflicts import SUFFIX, sample_conflicts
from training.tasks.problems import Problem, Split, sample_problems

OUT_OF_DOMAIN = "tale"
"""The family that no reinforcement learning sees; the warm start knows it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Problems of one family and level, with or without a conflict between premises."""

    family: str
    level: int
    conflicts: bool = False

    def sample(self, split: Split, count: int, seed: int) -> list[Problem]:
        """`count` different problems of a split."""
        sampler = sample_conflicts if self.conflicts else sample_problems
        return sampler(split, count, seed, families=[self.family], levels=[self.level])


TRAINED = (
    Cell("dial", 4),
    Cell("dial", 5),
    Cell("total", 5),
    Cell("dial", 1, conflicts=True),
    Cell("dial", 2, conflicts=True),
    Cell("total", 1, conflicts=True),
)
HELD_OUT = (Cell(OUT_OF_DOMAIN, 5), Cell(OUT_OF_DOMAIN, 1, conflicts=True))

TRAINING = 1800
PROBE = 120
WATCHED = 48
"""Problems for looking at a policy, apart from all others: no run of the study uses them."""
TEST_CLEAN, TEST_HELD_OUT, TEST_CONFLICTS = 80, 50, 20
"""Test problems of a cell: without a conflict, the same out of domain, and with one."""

FILES = ("train", "watched", "probe", "test")


def write_problems(folder: Path) -> None:
    """Writes `train`, `watched`, `probe` and `test.jsonl`: always the same, no problem in two."""
    for name, problems in problems_by_file().items():
        rows = [json.dumps(_row(problem)) for problem in problems]
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / f"{name}.jsonl", "\n".join(rows) + "\n")


def problems_by_file() -> dict[str, list[Problem]]:
    """The problems of each file, in random order."""
    test = [
        problem
        for cell in (*TRAINED, *HELD_OUT)
        for problem in cell.sample(Split.TEST, _tested(cell), seed=0)
    ]
    return {
        "train": _of_trained(Split.TRAIN, TRAINING),
        "watched": _of_trained(Split.ORDER, WATCHED),
        "probe": _of_trained(Split.VALIDATION, PROBE),
        "test": _shuffled(test),
    }


def _tested(cell: Cell) -> int:
    """Test problems of a cell."""
    if cell.conflicts:
        return TEST_CONFLICTS
    return TEST_HELD_OUT if cell in HELD_OUT else TEST_CLEAN


def is_out_of_domain(problem_id: str) -> bool:
    """Whether a test problem is of the family that training does not see."""
    return problem_id.startswith(OUT_OF_DOMAIN)


def has_conflict(problem_id: str) -> bool:
    """Whether two premises of a problem conflict."""
    return problem_id.partition("-")[0].endswith(SUFFIX)


def _of_trained(split: Split, count: int) -> list[Problem]:
    """As many problems of each cell that is trained on, in random order."""
    each = count // len(TRAINED)
    return _shuffled(problem for cell in TRAINED for problem in cell.sample(split, each, seed=0))


def _shuffled(problems: Iterable[Problem]) -> list[Problem]:
    ordered = list(problems)
    random.Random(0).shuffle(ordered)
    return ordered


def _row(problem: Problem) -> dict[str, str]:
    part = f"{problem.family}, level {problem.level}"
    return {
        "id": problem.id,
        "problem": problem.question,
        "answer": problem.answer,
        "part": part,
    }
