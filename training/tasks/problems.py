"""The embedded reasoner's problems: three families, six levels, disjoint splits.

Every family tells the same kind of walk in its own words: a value, then lettered steps that change
it. The letters let a model of 1 to 2 million parameters learn the task: the reasoning repeats each
letter, so a step finds its instruction by an exact match (see docs/decisions.md).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from training.errors import TrainingRefused

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Split(StrEnum):
    """The use of a problem. A hash of its question decides, so no problem is in two splits."""

    TRAIN = "train"  # warm start, RL, and rollouts for training the probe
    VALIDATION = "validation"  # for choosing a recipe
    ORDER = "order"  # orders the policies before LTT tests them
    CALIBRATION = "calibration"  # tests the policies: the certificate's labels
    TEST = "test"  # used only for reported figures


_SHARES = (
    (Split.TRAIN, 60),
    (Split.VALIDATION, 10),
    (Split.ORDER, 10),
    (Split.CALIBRATION, 10),
    (Split.TEST, 10),
)


def split_of(question: str) -> Split:
    """The fixed split of a question, from a hash of its text, in shares of 60/10/10/10/10."""
    bucket = int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "big") % 100
    for split, share in _SHARES:
        if bucket < share:
            return split
        bucket -= share
    raise AssertionError("shares do not add up to 100")


@dataclass(frozen=True, slots=True)
class Step:
    """One lettered instruction: its text in the question, and its effect on the value."""

    letter: str
    words: str
    amount: int  # signed

    @property
    def size(self) -> int:
        return abs(self.amount)


@dataclass(frozen=True, slots=True)
class Problem:
    """A question, its only right answer, and the walk that it describes."""

    family: str
    level: int
    question: str
    answer: str
    start: int
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        digest = hashlib.sha256(self.question.encode()).hexdigest()[:12]
        return f"{self.family}-{self.level}-{digest}"

    @property
    def split(self) -> Split:
        return split_of(self.question)


@dataclass(frozen=True, slots=True)
class Scene:
    """The words of one story: `{}` takes a number."""

    opening: str
    gain: str
    loss: str
    ask: str


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of story. `modulus` wraps the value (a dial); without it, values stay in `values`."""

    name: str
    scenes: tuple[Scene, ...]
    starts: range
    values: range
    plus: str
    minus: str
    modulus: int | None = None

    def move(self, value: int, amount: int) -> int:
        """The value after one step."""
        return (value + amount) % self.modulus if self.modulus else value + amount


@dataclass(frozen=True, slots=True)
class Level:
    """The number of steps, and the probability of a slip in the training text, per step."""

    steps: int
    slip: float


LEVELS = {
    1: Level(steps=2, slip=0.005),
    2: Level(steps=4, slip=0.015),
    3: Level(steps=6, slip=0.04),
    4: Level(steps=8, slip=0.09),
    5: Level(steps=10, slip=0.16),
    6: Level(steps=13, slip=0.26),
}

FAMILIES = {
    "dial": Family(
        name="dial",
        scenes=(Scene("A dial shows {}.", "up {}", "down {}", "What does it show now?"),),
        starts=range(10),
        values=range(10),
        plus="up",
        minus="down",
        modulus=10,
    ),
    "total": Family(
        name="total",
        scenes=(Scene("Start at {}.", "add {}", "take {}", "What is the total?"),),
        starts=range(15, 250),
        values=range(10, 300),
        plus="plus",
        minus="minus",
    ),
    "tale": Family(
        name="tale",
        scenes=(
            Scene(
                "A bus has {} people.",
                "{} get on",
                "{} get off",
                "How many people are on the bus?",
            ),
            Scene(
                "A jar holds {} coins.", "{} go in", "{} come out", "How many coins are in the jar?"
            ),
            Scene(
                "A shelf has {} books.",
                "{} are put up",
                "{} are taken",
                "How many books are on the shelf?",
            ),
        ),
        starts=range(5, 60),
        values=range(100),
        plus="plus",
        minus="minus",
    ),
}


def make_problem(family: str, level: int, rng: random.Random) -> Problem:
    """A random problem of one family and level, from any split."""
    kind, spec = FAMILIES[family], LEVELS[level]
    scene = rng.choice(kind.scenes)
    start = value = rng.choice(kind.starts)
    steps = []
    for letter in LETTERS[: spec.steps]:
        size = rng.randint(1, 9)
        gain = rng.random() < 0.5
        if kind.modulus is None:  # turns back at the limits of the family's values
            gain = (gain or value - size not in kind.values) and value + size in kind.values
        amount = size if gain else -size
        steps.append(Step(letter, (scene.gain if gain else scene.loss).format(size), amount))
        value = kind.move(value, amount)
    instructions = " ".join(f"{step.letter} {step.words}." for step in steps)
    return Problem(
        family=family,
        level=level,
        question=f"{scene.opening.format(start)} {instructions} {scene.ask}",
        answer=str(value),
        start=start,
        steps=tuple(steps),
    )


def problem_stream(
    split: Split,
    rng: random.Random,
    families: Sequence[str] = tuple(FAMILIES),
    levels: Sequence[int] = tuple(LEVELS),
) -> Iterator[Problem]:
    """An endless stream of problems of one split, by family and level in turn; may repeat."""
    for family, level in cycle([(f, lv) for lv in levels for f in families]):
        while (problem := make_problem(family, level, rng)).split is not split:
            pass
        yield problem


def sample_problems(
    split: Split,
    count: int,
    seed: int,
    families: Sequence[str] = tuple(FAMILIES),
    levels: Sequence[int] = tuple(LEVELS),
) -> list[Problem]:
    """`count` different problems of one split: independent draws, uniform over family and level.

    Raises:
        TrainingRefused: the split has fewer different problems of these levels.
    """
    rng = random.Random(f"{split}-{seed}")
    made = (make_problem(rng.choice(families), rng.choice(levels), rng) for _ in range(100 * count))
    return different(made, split, count, f"families {list(families)}, levels {list(levels)}")


def different(made: Iterable[Problem], split: Split, count: int, kind: str) -> list[Problem]:
    """The first `count` different problems of one split.

    Args:
        made: problems of any split, which may repeat.
        split: the split.
        count: how many are wanted.
        kind: what the problems are, for the error message.

    Raises:
        TrainingRefused: `made` has fewer.
    """
    found: dict[str, Problem] = {}
    for problem in made:
        if problem.split is split:
            found.setdefault(problem.question, problem)
        if len(found) == count:
            break
    if len(found) < count:
        raise TrainingRefused(
            f"found only {len(found)} different problems of split {split.value!r}, {kind}; "
            f"ask for fewer than {count}"
        )
    return list(found.values())
