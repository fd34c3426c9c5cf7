"""The design of the primary comparison, fixed before its runs (docs/studies/paper-primary.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.errors import TrainingRefused

REFERENCE, COMPARED = "grpo", ("rlcm", "rlcm-authors")
METHODS = (REFERENCE, *COMPARED)
SEEDS = tuple(range(10))
PILOT_SEEDS = (100, 101, 102)
"""Seeds that show how much runs differ. They enter no verdict."""

CONFIG = Path(__file__).with_name("primary.toml")
"""Settings of the training."""
RUNS = Path("runs/paper-primary")
"""Folder of policies and tests."""
RESULTS = Path("studies/results/paper-primary")
PAGE = Path("docs/studies/paper-primary.md")

TEMPERATURE = 1.0
"""Of the test, and of the rollouts that make every post-hoc probe."""
ROLLOUTS = 16
PROBE_ROLLOUTS, PROBE_ANSWERS = 8, 4
"""Of each problem, and forced answers at each cut (RLCM App. B)."""

POSTHOC, JOINT, RICHER = "posthoc", "joint", "richer"
"""Probes: made afterwards on states, the same for all; trained beside the policy; made afterwards
on states and statistics of the tokens. The first one decides."""

RISK, ALPHA, DELTA = "regret", 0.05, 0.1
"""Of the certificates under which tokens are compared."""

LEVEL = 0.05
"""Family-wise error of the verdicts, over all primary hypotheses (Holm)."""
ACCURACY_MARGIN = 0.02
"""The accuracy that a method may lose and still count as not inferior."""
LEAST_COMMON = 30
"""Problems that are mixed in every run; with fewer, nothing is compared within a question."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A primary endpoint.

    Attributes:
        name: in results and tables.
        is_better_low: whether less is better.
        margin: largest loss that counts as none (non-inferiority); None: it has to be better.
        keeps_accuracy: whether it counts only beside an accuracy that is not inferior. A policy
            that is always wrong loses no right answer, whenever it stops.
    """

    name: str
    is_better_low: bool = False
    margin: float | None = None
    keeps_accuracy: bool = False


WITHIN = Endpoint("AUROC within a question")
ACCURACY = Endpoint("accuracy", margin=ACCURACY_MARGIN)
TOKENS = Endpoint("tokens at equal certified risk", is_better_low=True, keeps_accuracy=True)
ENDPOINTS = (Endpoint("resolution"), WITHIN, TOKENS, ACCURACY)


@dataclass(frozen=True, slots=True)
class PrimaryRun:
    """One policy, its probes and its test."""

    method: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's folder and result."""
        return f"{self.method}-{self.seed}"


def runs(seeds: tuple[int, ...] = SEEDS) -> Iterator[PrimaryRun]:
    """All runs, seed by seed, so that a study that is cut short has whole seeds."""
    for seed in seeds:
        for method in METHODS:
            yield PrimaryRun(method, seed)


def run_named(name: str) -> PrimaryRun:
    """The run of that name, of the study or of the pilot.

    Raises:
        TrainingRefused: there is none; the message lists the names.
    """
    known = {run.name: run for run in (*runs(), *runs(PILOT_SEEDS))}
    if name not in known:
        raise TrainingRefused(f"{name!r} is no run: give one of {', '.join(known)}")
    return known[name]
