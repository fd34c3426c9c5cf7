"""The runs that the paper's tables and figures need (RLCM §3.1, §4, App. C)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from training.errors import TrainingRefused
from training.rl.rewards.methods import METHODS, Method

BASE = "base"
SEEDS = (0, 1, 2)
STRENGTHS = (0.05, 0.1, 0.3, 0.5)
"""Values of λ for RLCM (App. C)."""
BRIER_WEIGHTS = (0.0, 0.3, 1.0, 3.0)
"""Weights of RLCR's Brier term (§3.1); the paper's figure does not state its values."""

REGULARISERS = (0.01, 0.1)
"""Weights of C²GSPG's regulariser, which its source does not state."""

COMPARED = ("grpo", "rlcr", "c2gspg", "rlcm")
"""Methods compared with the base model (Table 1)."""
ABLATED = ("final-brier", "final-margin", "process-brier")
"""Methods compared with RLCM (§4.5)."""
AUTHORS = ("rlcm-authors", "rlcr-authors")
"""Methods as the authors' code runs them; only in `repeated_runs`."""
VOTING_ROLLOUTS, ROLLOUTS = 16, 4
"""Rollouts per problem at evaluation: for the comparison of votes (seed 0), and otherwise."""


@dataclass(frozen=True, slots=True)
class PaperRun:
    """One policy and its evaluation.

    Attributes:
        method: name of the method; `base` is the warm start itself.
        seed: of the training, or of the problems for the base model's probe.
        strength: λ; 0 if the method has none.
    """

    method: str
    seed: int
    strength: float

    @property
    def name(self) -> str:
        """The name of the run's folder and result."""
        parts = [self.method, f"{self.strength:g}" if self.has_strength else "", str(self.seed)]
        return "-".join(part for part in parts if part)

    @property
    def has_strength(self) -> bool:
        """Whether the method has λ."""
        return self.method not in (BASE, "grpo")

    @property
    def has_own_strength(self) -> bool:
        """Whether λ is the method's default."""
        return self.strength == (0.0 if self.trains is None else self.trains.strength)

    @property
    def trains(self) -> Method | None:
        """The training method; None for the base model."""
        return None if self.method == BASE else METHODS[self.method]

    @property
    def title(self) -> str:
        """The method's name in the paper."""
        return "Base" if self.trains is None else self.trains.title

    @property
    def rollouts(self) -> int:
        """Rollouts per problem at evaluation."""
        is_compared = self.method in (BASE, *COMPARED) and self.has_own_strength
        votes = is_compared and self.seed == SEEDS[0]
        return VOTING_ROLLOUTS if votes else ROLLOUTS


def paper_runs() -> tuple[PaperRun, ...]:
    """All runs, each once; the runs that most comparisons need come first."""
    return tuple(dict.fromkeys(_all()))


def repeated_runs() -> tuple[PaperRun, ...]:
    """Every run of `paper_runs`, and the authors' methods, with three seeds; seed by seed."""
    variants = dict.fromkeys((run.method, run.strength) for run in paper_runs())
    variants |= dict.fromkeys((method, METHODS[method].strength) for method in AUTHORS)
    return tuple(PaperRun(method, seed, own) for seed in SEEDS for method, own in variants)


def run_named(name: str, planned: Sequence[PaperRun] = ()) -> PaperRun:
    """The run of that name among `planned`, by default `paper_runs`.

    Raises:
        TrainingRefused: no run has this name; the message lists the existing names.
    """
    runs = {run.name: run for run in planned or paper_runs()}
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
