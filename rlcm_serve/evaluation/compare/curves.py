"""Sections of a comparison's page: curves that at least two runs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Folded, Plate, Section
from calibration.report_kit.tables import Cell, Row, Table, number_cell
from calibration.report_kit.wording import (
    number,
    number_in_full,
    share,
    share_in_full,
)
from rlcm_serve.evaluation.compare import figures
from rlcm_serve.evaluation.compare.base import Comparison, benchmark_of, source_of
from rlcm_serve.evaluation.measuring.markers import CATEGORY_OF, INDICATORS, Category
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures
from rlcm_serve.evaluation.report.verbalized import CATEGORY_TITLES


def curves(comparison: Comparison) -> Iterator[Section]:
    """Budgets, votes and markers, for benchmarks that at least two runs have."""
    budgets = _shared(comparison, _has_budgets)
    if budgets:
        yield Section(
            "on-the-way",
            "Answers on the way",
            "Which run is more accurate, and better calibrated, at a smaller budget?",
            (
                Plate(
                    "budgets",
                    partial(figures.draw_budgets, comparison, budgets),
                    _of_budgets(comparison, budgets),
                ),
            ),
        )
    votes = _shared(comparison, _has_votes)
    if votes:
        yield Section(
            "voting",
            "One answer from several rollouts",
            "Which run's rollouts and confidence make the better vote?",
            (
                Plate(
                    "votes",
                    partial(figures.draw_votes, comparison, votes),
                    _of_votes(comparison, votes),
                ),
            ),
        )
    texts = _shared(comparison, lambda benchmark, _: bool(benchmark.categories))
    if texts:
        yield Section(
            "doubt",
            "Doubt in the reasoning",
            "How often does each run's reasoning express doubt (RLCM App. E)?",
            (
                Plate(
                    "markers",
                    partial(figures.draw_markers, comparison, texts),
                    _of_markers(comparison, texts),
                ),
                Folded(
                    "Every phrase",
                    [table for name in texts if (table := _phrases(comparison, name)).rows],
                ),
            ),
        )


def _shared(
    comparison: Comparison, has: Callable[[BenchmarkMeasures, str], bool]
) -> tuple[str, ...]:
    """Benchmarks for which at least two runs have these measures."""
    return tuple(
        benchmark.name
        for benchmark in comparison.benchmarks
        if sum(
            found is not None and has(found, source)
            for found, source in _found(comparison, benchmark.name)
        )
        > 1
    )


def _found(comparison: Comparison, name: str) -> list[tuple[BenchmarkMeasures | None, str]]:
    runs = zip(comparison.measures, comparison.sources, strict=True)
    return [(benchmark_of(measures, name), source) for measures, source in runs]


def _has_budgets(benchmark: BenchmarkMeasures, _: str) -> bool:
    return len(benchmark.budgets) > 1


def _has_votes(benchmark: BenchmarkMeasures, source: str) -> bool:
    found = source_of(benchmark, source)
    return found is not None and len(found.votes.n) > 1


def _of_budgets(comparison: Comparison, names: Sequence[str]) -> Caption:
    said = []
    for run, benchmark, source in _each(comparison, names):
        if benchmark.budgets:
            first, last = benchmark.budgets[0], benchmark.budgets[-1]
            ece = f", ECE {number(last.ece[source])}" if source in last.ece else ""
            said.append(
                f"{benchmark.title}, {run}: {share(first.accuracy)} right at {first.tokens:,} "
                f"tokens, {share(last.accuracy)} at {last.tokens:,}{ece}."
            )
    return Caption(
        "Accuracy and calibration by budget",
        "Every rollout cut at the budget and forced to answer; rollouts that ended earlier keep "
        "their answer. Bands are 95% intervals by resampling problems, for each run alone. If "
        "bands overlap, the runs may still differ: the paired differences above decide.",
        " ".join(said),
    )


def _of_votes(comparison: Comparison, names: Sequence[str]) -> Caption:
    said = []
    for run, benchmark, source in _each(comparison, names):
        found = source_of(benchmark, source)
        if found is not None:
            votes = found.votes
            said.append(
                f"{benchmark.title}, {run}, n = {votes.n[-1]}: majority "
                f"{share_in_full(votes.majority[-1])}, weighted "
                f"{share_in_full(votes.confidence[-1])}, oracle {share_in_full(votes.oracle[-1])}."
            )
    return Caption(
        "Votes by number of rollouts",
        "Share of the problems whose winner is right. At n = 1 all three are Pass@1. The oracle is "
        "right if any rollout is right; its gap to a vote is the loss by choosing the answer. "
        "Bands are 95% intervals by resampling problems, for each run alone.",
        " ".join(said),
    )


def _of_markers(comparison: Comparison, names: Sequence[str]) -> Caption:
    said = [
        f"{benchmark.title}, {run}: "
        + ", ".join(
            f"{CATEGORY_TITLES[Category(marker.category)]} "
            f"{number_in_full(marker.per_1000_tokens, 2)}"
            for marker in benchmark.categories
        )
        + " per 1,000 tokens."
        for run, benchmark, _ in _each(comparison, names)
    ]
    return Caption(
        "Epistemic markers",
        "Phrases of each category, with 95% intervals by resampling problems. A run that writes "
        "more has more phrases per rollout; counts per 1,000 tokens correct for that. They "
        "describe how a model writes, not its uncertainty.",
        " ".join(said),
    )


def _phrases(comparison: Comparison, name: str) -> Table:
    """Count per rollout of each phrase that any run writes; without rows if there is none."""
    runs = [
        {marker.name: marker.per_rollout for marker in benchmark.indicators} if benchmark else {}
        for benchmark, _ in _found(comparison, name)
    ]
    written = [phrase for phrase in INDICATORS if any(_value(run, phrase) for run in runs)]
    (title,) = (b.title for b in comparison.benchmarks if b.name == name)
    return Table(
        f"{title}: count per rollout of every phrase that occurs, with 95% intervals by resampling "
        "problems, for each run alone.",
        ["phrase", "category", *comparison.names],
        [
            Row(
                phrase,
                [
                    Cell(CATEGORY_TITLES[CATEGORY_OF[phrase]], kind="name"),
                    *(number_cell(run.get(phrase, Estimate(None))) for run in runs),
                ],
            )
            for phrase in written
        ],
    )


def _value(run: Mapping[str, Estimate], phrase: str) -> float:
    return run.get(phrase, Estimate(None)).value or 0.0


def _each(
    comparison: Comparison, names: Sequence[str]
) -> Iterator[tuple[str, BenchmarkMeasures, str]]:
    """Name, benchmark and source of every run that has one of these benchmarks."""
    for name in names:
        for run, (benchmark, source) in zip(
            comparison.names, _found(comparison, name), strict=True
        ):
            if benchmark is not None:
                yield run, benchmark, source
