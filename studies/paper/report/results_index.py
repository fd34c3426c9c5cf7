"""Results by method, all on the same problems and with the same grader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, SourceMeasures
from rlcm_serve.evaluation.report.results import UNKNOWN
from studies.paper.result import Result, read_results
from studies.paper.runs import BASE, SEEDS, PaperRun, paper_runs
from training.rl.rewards.methods import METHODS


@dataclass(frozen=True, slots=True)
class ResultsIndex:
    """Results by name: at least one, all on the same problems and with the same grader."""

    results: Mapping[str, Result]
    planned: tuple[PaperRun, ...] = field(default_factory=paper_runs)

    @classmethod
    def read(cls, folder: Path, planned: tuple[PaperRun, ...] | None = None) -> Self:
        """Reads a folder that `python -m studies.paper run` or `... all` wrote.

        Args:
            folder: of the results.
            planned: all runs of the study; None: `paper_runs`.

        Raises:
            RequestRefused: the folder has no results, a result is not a run of the paper, or
                results differ in problems, grader or design.
        """
        results = read_results(folder)
        planned = paper_runs() if planned is None else planned
        known = {run.name for run in planned}
        for name, result in results.items():
            if name not in known:
                raise RequestRefused(
                    "results", f"{name} in {folder} is no run of the paper: take the file away"
                )
            if len(result.measures.benchmarks) != 1:
                raise RequestRefused(
                    "results",
                    f"{name} in {folder} is of {len(result.measures.benchmarks)} benchmarks: "
                    "the report is of one",
                )
        first, *others = results.values()
        for other in others:
            if _asked(other) != _asked(first):
                raise RequestRefused(
                    "results",
                    f"{first.name} and {other.name} in {folder} are not of the same problems, "
                    "grader and design: evaluate one of them anew",
                )
        return cls(results, planned)

    @property
    def any(self) -> Result:
        """Any one result, for properties that all results share."""
        return next(iter(self.results.values()))

    @property
    def missing(self) -> tuple[str, ...]:
        """Runs of the paper without a result, by name."""
        return tuple(run.name for run in self.planned if run.name not in self.results)

    @property
    def families(self) -> tuple[str, ...]:
        """Families of the problems."""
        parts = self.any.rollouts.parts
        return tuple(sorted({part.partition(",")[0] for part in parts if part}))

    @property
    def most_rollouts(self) -> int:
        """The largest number of rollouts of a problem: so many vote."""
        return max(len(own) for r in self.results.values() for own in r.rollouts.right)

    def among(self, methods: Iterable[str]) -> tuple[str, ...]:
        """Those of these methods that the study runs."""
        run = {planned.method for planned in self.planned}
        return tuple(method for method in methods if method in run)

    def of(self, method: str, strength: float | None = None) -> tuple[Result, ...]:
        """All existing seeds of a method, at its default λ unless `strength` is given."""
        found = (self.results.get(name_of(method, seed, strength)) for seed in SEEDS)
        return tuple(result for result in found if result is not None)

    def first(self, method: str, strength: float | None = None) -> Result | None:
        """The first seed of a method; None if it is missing."""
        return self.results.get(name_of(method, SEEDS[0], strength))

    def pairs(self, one: str, other: str) -> tuple[tuple[Result, Result], ...]:
        """Both methods' results for every common seed."""
        theirs = {result.seed: result for result in self.of(other)}
        return tuple((r, theirs[r.seed]) for r in self.of(one) if r.seed in theirs)


def name_of(method: str, seed: int, strength: float | None = None) -> str:
    """The name of a run."""
    if strength is None:
        strength = 0.0 if method == BASE else METHODS[method].strength
    return PaperRun(method, seed, strength).name


def title_of(method: str) -> str:
    """A method's name in the paper."""
    return "Base" if method == BASE else METHODS[method].title


def benchmark_of(result: Result) -> BenchmarkMeasures:
    """The measures of a result's evaluation."""
    return result.measures.benchmarks[0]


def source_of(result: Result) -> SourceMeasures:
    """The measures of a result's own source of confidence.

    Raises:
        RequestRefused: this source was not measured.
    """
    found = benchmark_of(result).by_source(result.measures.source)
    if found is None:
        raise RequestRefused("results", f"{result.name} holds nothing of {result.measures.source}")
    return found


def fewest_rollouts(results: Iterable[Result]) -> int:
    """The smallest number of rollouts of any problem in the results; 0 without results."""
    return min((len(own) for r in results for own in r.rollouts.right), default=0)


def scored_alike(
    result: Result, n_rollouts: int, only: str | tuple[str, ...] = ""
) -> ScoredRollouts:
    """The first `n_rollouts` rollouts of each problem.

    A calibration error is higher on fewer rollouts, so runs are compared on equally many.

    Args:
        n_rollouts: every problem must have at least this many.
        only: as in `Rollouts.scored`.
    """
    scored = result.rollouts.scored(only)
    first_P = np.cumsum(scored.rollouts_P) - scored.rollouts_P
    kept_R = np.arange(scored.n_rollouts) - first_P[scored.problem_R] < n_rollouts
    return replace(
        scored,
        problem_R=scored.problem_R[kept_R],
        correct_R=scored.correct_R[kept_R],
        confidence_R=scored.confidence_R[kept_R],
        answer_class_R=scored.answer_class_R[kept_R],
    )


def over_seeds(results: Sequence[Result], value: Callable[[Result], float | None]) -> Estimate:
    """The result of `mean_of` for a value of each result."""
    return mean_of([Estimate(value(result)) for result in results])


def mean_of(seeds: Sequence[Estimate]) -> Estimate:
    """Mean over seeds. With several seeds, the range of their values replaces the interval.

    The mean is undefined if any seed's value is undefined.
    """
    values = [seed.value for seed in seeds if seed.value is not None]
    if not values or len(values) < len(seeds):
        return UNKNOWN
    mean = sum(values) / len(values)
    return Estimate(mean) if len(values) == 1 else Estimate(mean, min(values), max(values))


def one_or_mean(seeds: Sequence[Estimate]) -> Estimate:
    """One seed's value with its own interval, or the result of `mean_of`."""
    return seeds[0] if len(seeds) == 1 else mean_of(seeds)


def _asked(result: Result) -> tuple[object, ...]:
    benchmark = benchmark_of(result)
    asked = benchmark.problems, benchmark.grader, result.rollouts.problems, result.rollouts.parts
    return *asked, result.design
