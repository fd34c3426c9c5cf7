"""Problems whose premises conflict: one letter has two instructions, and only one of them holds.

Which one holds is drawn by chance, and neither the words nor their order tell it. So no model can
be right in more than half of these problems, and a calibrated one stays unsure of its answer. All
words are those of the families in `problems`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from training.tasks.problems import (
    FAMILIES,
    Family,
    Problem,
    Scene,
    Split,
    Step,
    different,
    make_problem,
)

SUFFIX = "_conflict"
"""Ends the family's name of a problem with a conflict: `dial_conflict`."""


def make_conflict(family: str, level: int, rng: random.Random) -> Problem:
    """A random problem of one family and level in which one letter has two instructions.

    `steps` and `answer` follow the instruction that holds. The other one leads to another answer.
    """
    kind = FAMILIES[family]
    while True:
        problem = make_problem(family, level, rng)
        at = rng.randrange(len(problem.steps))
        false = _instruction(kind, problem, problem.steps[at].letter, rng)
        walk = [*problem.steps[:at], false, *problem.steps[at + 1 :]]
        values = _values(kind, problem.start, walk)
        if all(value in kind.values for value in values) and str(values[-1]) != problem.answer:
            return replace(
                problem,
                family=f"{family}{SUFFIX}",
                question=_with_both(problem.question, problem.steps[at], false, rng),
            )


def sample_conflicts(
    split: Split, count: int, seed: int, families: Sequence[str], levels: Sequence[int]
) -> list[Problem]:
    """`count` different problems of one split, uniform over family and level.

    Raises:
        TrainingRefused: the split has fewer different problems of these levels.
    """
    rng = random.Random(f"conflict-{split}-{seed}")
    made = (
        make_conflict(rng.choice(families), rng.choice(levels), rng) for _ in range(100 * count)
    )
    kind = f"families {list(families)}, levels {list(levels)}, with a conflict"
    return different(made, split, count, kind)


def _instruction(kind: Family, problem: Problem, letter: str, rng: random.Random) -> Step:
    size, gain = rng.randint(1, 9), rng.random() < 0.5
    scene = _scene(kind, problem)
    words = (scene.gain if gain else scene.loss).format(size)
    return Step(letter, words, size if gain else -size)


def _scene(kind: Family, problem: Problem) -> Scene:
    """The scene whose words the question has."""
    return next(one for one in kind.scenes if problem.question.endswith(one.ask))


def _values(kind: Family, start: int, steps: Sequence[Step]) -> list[int]:
    values = [start]
    for step in steps:
        values.append(kind.move(values[-1], step.amount))
    return values[1:]


def _with_both(question: str, true: Step, false: Step, rng: random.Random) -> str:
    """The question with both instructions of the letter, in random order."""
    lines = [f"{step.letter} {step.words}." for step in (true, false)]
    rng.shuffle(lines)
    return question.replace(f"{true.letter} {true.words}.", " ".join(lines))
