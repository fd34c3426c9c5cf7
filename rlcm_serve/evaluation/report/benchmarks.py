"""What sections ask of a run's benchmarks: its own source there, and names of their figures."""

from __future__ import annotations

from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures, SourceMeasures


def own_source(run: RunMeasures, benchmark: BenchmarkMeasures) -> SourceMeasures | None:
    """Measures of the run's own source of confidence on a benchmark, if it was read there."""
    return next((found for found in benchmark.sources if found.source == run.source), None)


def per_benchmark(stem: str, run: RunMeasures, benchmark: BenchmarkMeasures) -> str:
    """Name of a figure that every benchmark has."""
    return stem if len(run.benchmarks) == 1 else f"{stem}-{benchmark.name}"


def of_benchmark(title: str, run: RunMeasures, benchmark: BenchmarkMeasures) -> str:
    """Title of a figure that every benchmark has."""
    return title if len(run.benchmarks) == 1 else f"{title}: {benchmark.title}"
