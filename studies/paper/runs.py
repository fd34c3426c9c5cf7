"""Which runs the paper's tables and figures take (RLCM §3.1, §4, App. C)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from training.errors import TrainingRefused
from training.rl.rewards.methods import METHODS, Method

BASE = "base"
SEEDS = (0, 1, 2)
STRENGTHS = (0.05, 0.1, 0.3, 0.5)
"""λ of RLCM, App. C."""
BRIER_WEIGHTS = (0.0, 0.3, 1.0, 3.0)
"""λ of RLCR's Brier term, §3.1; the paper's figure does not print its own."""

REGULARISERS = (0.01, 0.1)
"""Weights of C²GSPG's, which its source does not give."""

COMPARED = ("grpo", "rlcr", "c2gspg", "rlcm")
"""Beside the base model, Table 1."""
ABLATED = ("final-brier", "final-margin", "process-brier")
"""Beside RLCM, §4.5."""
REPEATED = (BASE, "grpo", "rlcm")
"""Those with three seeds."""
VOTING_ROLLOUTS, ROLLOUTS = 16, 4
"""Per problem, at evaluation: of what is compared in votes (seed 0), and of the rest."""


@dataclass(frozen=True, slots=True)
class PaperRun:
    """One policy and its evaluation.

    Attributes:
        method: its name; `base` is the warm start itself.
        seed: of its training, or of the problems that the base model's probe is fitted on.
        strength: λ; 0 where the method has none.
    """

    method: str
    seed: int
    strength: float

    @property
    def name(self) -> str:
        """Of its folder and its result."""
        parts = [self.method, f"{self.strength:g}" if self.has_strength else "", str(self.seed)]
        return "-".join(part for part in parts if part)

    @property
    def has_strength(self) -> bool:
        """Whether λ is a part of it."""
        return self.method not in (BASE, "grpo")

    @property
    def trains(self) -> Method | None:
        """What it is trained with; None for the base model."""
        return None if self.method == BASE else METHODS[self.method]

    @property
    def title(self) -> str:
        """As the paper calls it."""
        return "Base" if self.trains is None else self.trains.title

    @property
    def rollouts(self) -> int:
        """Per problem, at evaluation."""
        own = 0.0 if self.trains is None else self.trains.strength
        is_compared = self.method in (BASE, *COMPARED) and self.strength == own
        votes = is_compared and self.seed == SEEDS[0]
        return VOTING_ROLLOUTS if votes else ROLLOUTS


def paper_runs() -> tuple[PaperRun, ...]:
    """All of them, each once, those that most depends on first."""
    return tuple(dict.fromkeys(_all()))


def run_named(name: str) -> PaperRun:
    """The run of that name.

    Raises:
        TrainingRefused: there is none; the message lists those there are.
    """
    runs = {run.name: run for run in paper_runs()}
    if name not in runs:
        raise TrainingRefused(f"{name!r} is no run of the paper: take one of {', '.join(runs)}")
    return runs[name]


def _all() -> Iterator[PaperRun]:
    for seed in SEEDS[:1]:
        yield PaperRun(BASE, seed, 0.0)
        for method in (*COMPARED, *ABLATED):
            yield PaperRun(method, seed, METHODS[method].strength)
    for seed in SEEDS[1:]:
        yield PaperRun(BASE, seed, 0.0)
        yield PaperRun("grpo", seed, 0.0)
        yield PaperRun("rlcm", seed, METHODS["rlcm"].strength)
    for strength in STRENGTHS:
        yield PaperRun("rlcm", SEEDS[0], strength)
    for weight in REGULARISERS:
        yield PaperRun("c2gspg", SEEDS[0], weight)
    for weight in BRIER_WEIGHTS:
        yield PaperRun("rlcr", SEEDS[0], weight)
