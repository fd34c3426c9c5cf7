"""What a comparison is made of: the runs it takes, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from calibration.report_kit.tables import Rank
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures, SourceMeasures

COLUMNS = ("accuracy", "pce", "ece")
"""Metrics of the main table (RLCM Table 1), in its order."""
DIFFERENCES = ("accuracy", "pce", "ece", "auroc", "within_auroc")
"""Metrics of the paired differences."""
HIGHER_IS_BETTER = frozenset({"accuracy", "auroc", "within_auroc"})


class Run(Protocol):
    """A finished run."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def source(self) -> str:
        """The source of confidence that it is compared by."""

    @property
    def measures(self) -> RunMeasures:
        """Its measures."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Its settings."""

    def scored(self, benchmark: str, source: str, /) -> ScoredRollouts:
        """A benchmark's rollouts as they ended, under a source of confidence."""

    def problem_ids(self, benchmark: str, /) -> tuple[str, ...]:
        """A benchmark's problems, in the order in which `scored` numbers them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A figure of the main table, and its rank among the runs."""

    estimate: Estimate
    rank: Rank = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A run minus the first one, on the problems that both have.

    Attributes:
        run: name of the run.
        n_problems: that both have.
        metrics: by the names of `DIFFERENCES`, with intervals of paired resamples; empty if there
            is a reason.
        reason: why there is no difference; None if there is one.
    """

    run: str
    n_problems: int
    metrics: dict[str, Estimate]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """One benchmark under all runs.

    Attributes:
        name, title: of the benchmark.
        table: by run, and within by the names of `COLUMNS`; None where a run lacks it.
        differences: of every run but the first that has it.
    """

    name: str
    title: str
    table: tuple[dict[str, Place] | None, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side.

    Attributes:
        names: of the runs; the others are compared with the first.
        sources: of the confidence that each is compared by.
        benchmarks: those of the first run, then those that only others have.
        overall: the mean over the benchmarks that all runs have, by run and metric; none without
            two such benchmarks.
        warnings: why figures may not be comparable.
        measures: of the runs, for curves.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    benchmarks: tuple[BenchmarkComparison, ...]
    overall: tuple[dict[str, Place], ...]
    warnings: tuple[str, ...]
    measures: tuple[RunMeasures, ...]


def benchmark_of(measures: RunMeasures, name: str) -> BenchmarkMeasures | None:
    """A run's benchmark, if it has it."""
    return next((found for found in measures.benchmarks if found.name == name), None)


def source_of(benchmark: BenchmarkMeasures, name: str) -> SourceMeasures | None:
    """A benchmark's source of confidence, if it was measured."""
    return next((found for found in benchmark.sources if found.source == name), None)
