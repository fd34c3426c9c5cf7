"""What a comparison finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibration.metrics.estimates import Estimate
from calibration.metrics.vote_curves import VoteCurves
from calibration.report_kit.tables import Rank
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures

DIFFERENCES = ("accuracy", "pce", "ece", "auroc", "within_auroc")
"""Metrics of the paired differences."""


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
class RunOnBenchmark:
    """A run on a benchmark that it has.

    Attributes:
        place: of the run in the comparison, from 0.
        run: its name.
        source: of the confidence that it is compared by.
    """

    place: int
    run: str
    source: str
    benchmark: BenchmarkMeasures

    @property
    def votes(self) -> VoteCurves | None:
        """Votes weighted by its source, if that was read."""
        found = self.benchmark.by_source(self.source)
        return found.votes if found else None


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

    def on(self, benchmark: BenchmarkComparison) -> list[RunOnBenchmark]:
        """The runs that have a benchmark."""
        runs = enumerate(zip(self.names, self.sources, self.measures, strict=True))
        return [
            RunOnBenchmark(place, name, source, found)
            for place, (name, source, measures) in runs
            if (found := measures.benchmark(benchmark.name)) is not None
        ]

    def on_all(self, benchmarks: Sequence[BenchmarkComparison]) -> Iterator[RunOnBenchmark]:
        """The runs that have each benchmark."""
        for benchmark in benchmarks:
            yield from self.on(benchmark)
