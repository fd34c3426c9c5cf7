"""Sections of a comparison's page: curves that at least two runs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from matplotlib.figure import Figure

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Folded, Plate, Section
from calibration.report_kit.tables import Cell, Row, Table, number_cell
from rlcm_serve.evaluation.compare import figures
from rlcm_serve.evaluation.compare.base import BenchmarkComparison, Comparison, RunOnBenchmark
from rlcm_serve.evaluation.compare.words import words
from rlcm_serve.evaluation.measuring.markers import CATEGORY_OF, INDICATORS
from rlcm_serve.evaluation.report.style import CATEGORY_TITLES


def curves(comparison: Comparison) -> Iterator[Section]:
    """Budgets, votes and markers, for benchmarks that at least two runs have."""
    if budgets := _shared(comparison, lambda on: len(on.benchmark.budgets) > 1):
        plate = _plate("budgets", figures.draw_budgets, comparison, budgets)
        yield words.section("on-the-way", [plate], words("finding_on_the_way"))
    if votes := _shared(comparison, lambda on: on.votes is not None and len(on.votes.n) > 1):
        plate = _plate("votes", figures.draw_votes, comparison, votes)
        yield words.section("voting", [plate], words("finding_voting"))
    if texts := _shared(comparison, lambda on: bool(on.benchmark.categories)):
        plate = _plate("markers", figures.draw_markers, comparison, texts)
        tables = [_phrases(comparison, benchmark) for benchmark in texts]
        written = Folded("Every phrase", [table for table in tables if table.rows])
        yield words.section("doubt", [plate, written], words("finding_doubt"))


def _shared(
    comparison: Comparison, has: Callable[[RunOnBenchmark], bool]
) -> list[BenchmarkComparison]:
    """Benchmarks for which at least two runs have these measures."""
    return [
        benchmark
        for benchmark in comparison.benchmarks
        if sum(map(has, comparison.on(benchmark))) > 1
    ]


def _plate(
    name: str,
    draw: Callable[[Comparison, list[BenchmarkComparison]], Figure],
    comparison: Comparison,
    benchmarks: list[BenchmarkComparison],
) -> Plate:
    shown = list(comparison.on_all(benchmarks))
    return words.plate(name, partial(draw, comparison, benchmarks), shown=shown)


def _phrases(comparison: Comparison, benchmark: BenchmarkComparison) -> Table:
    """Count per rollout of each phrase that any run writes; without rows if there is none."""
    counts: list[dict[str, Estimate]] = [{} for _ in comparison.names]
    for on in comparison.on(benchmark):
        counts[on.place] = {marker.name: marker.per_rollout for marker in on.benchmark.indicators}
    rows = []
    for phrase in INDICATORS:
        found = [count.get(phrase, Estimate(None)) for count in counts]
        if any(estimate.value for estimate in found):
            category = Cell(CATEGORY_TITLES[CATEGORY_OF[phrase]], kind="name")
            rows.append(Row(phrase, [category, *map(number_cell, found)]))
    caption = words("phrases", title=benchmark.title)
    return Table(caption, ["phrase", "category", *comparison.names], rows)
