"""Runs put side by side: main table, ranks, paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from calibration.errors import CalibrationError
from calibration.metrics.bootstrap import estimate_difference
from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from calibration.report_kit.tables import ranked
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.compare.base import (
    DIFFERENCES,
    BenchmarkComparison,
    Comparison,
    Difference,
    Place,
)
from rlcm_serve.evaluation.compare.comparable import warnings
from rlcm_serve.evaluation.report.metrics import COLUMNS, METRICS
from rlcm_serve.evaluation.report.results import main_figures, mean
from rlcm_serve.evaluation.run import Run


def compare(runs: Sequence[Run]) -> Comparison:
    """Put runs side by side; the others are compared with the first.

    Differences use the problems that both runs have, by their ids, and their intervals resample
    these problems for both at once. Other differences between the runs are not corrected, but
    raise warnings.

    Raises:
        RequestRefused: fewer than two runs, two of one name, or no benchmark in common.
    """
    if len(runs) < 2:
        raise RequestRefused("runs", "one run cannot be compared: give two or more")
    names = tuple(run.name for run in runs)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RequestRefused("runs", f"two runs are called {twice!r}: name one, as NAME=FOLDER")
    titles = {b.name: b.title for run in runs for b in run.measures.benchmarks}
    in_all = [name for name in titles if all(run.measures.benchmark(name) for run in runs)]
    ours = [benchmark.name for benchmark in runs[0].measures.benchmarks]
    if not any(run.measures.benchmark(name) for run in runs[1:] for name in ours):
        raise RequestRefused(
            "runs", f"{names[0]} has no benchmark in common with any other: evaluate on the same"
        )
    return Comparison(
        names=names,
        sources=tuple(run.source for run in runs),
        benchmarks=tuple(_benchmark(runs, name, title) for name, title in titles.items()),
        overall=_overall(runs, in_all) if len(in_all) > 1 else (),
        warnings=tuple(warnings(runs)),
        measures=tuple(run.measures for run in runs),
    )


def _benchmark(runs: Sequence[Run], name: str, title: str) -> BenchmarkComparison:
    figures = [_figures(run, name) for run in runs]
    return BenchmarkComparison(name, title, _placed(figures), tuple(_differences(runs, name)))


def _figures(run: Run, name: str) -> dict[str, Estimate] | None:
    benchmark = run.measures.benchmark(name)
    return main_figures(benchmark, run.source) if benchmark else None


def _placed(figures: Sequence[dict[str, Estimate] | None]) -> tuple[dict[str, Place] | None, ...]:
    ranks = {
        name: ranked([f[name] if f else None for f in figures], METRICS[name].higher_is_better)
        for name in COLUMNS
    }
    return tuple(
        {name: Place(found[name], ranks[name][i]) for name in COLUMNS} if found else None
        for i, found in enumerate(figures)
    )


def _overall(runs: Sequence[Run], names: Sequence[str]) -> tuple[dict[str, Place], ...]:
    means = []
    for run in runs:
        figures = [found for name in names if (found := _figures(run, name)) is not None]
        means.append({column: mean([found[column] for found in figures]) for column in COLUMNS})
    return tuple(placed for placed in _placed(means) if placed is not None)


def _differences(runs: Sequence[Run], name: str) -> Iterator[Difference]:
    first, *others = runs
    if first.measures.benchmark(name) is None:
        return
    ours = first.problem_ids(name)
    for other in others:
        if other.measures.benchmark(name) is None:
            continue
        theirs = other.problem_ids(name)
        known = set(theirs)
        shared = [problem_id for problem_id in ours if problem_id in known]
        if not shared:
            yield Difference(other.name, 0, {}, "they have no problem in common")
            continue
        try:
            metrics = estimate_difference(
                _on(first.scored(name, first.source), ours, shared),
                _on(other.scored(name, other.source), theirs, shared),
                DIFFERENCES,
            )
        except CalibrationError as error:
            yield Difference(other.name, len(shared), {}, str(error))
        else:
            yield Difference(other.name, len(shared), metrics)


def _on(scored: ScoredRollouts, ids: Sequence[str], shared: Sequence[str]) -> ScoredRollouts:
    """The rollouts of the shared problems, numbered in their order."""
    number_of = {problem_id: number for number, problem_id in enumerate(shared)}
    number_P = np.array([number_of.get(problem_id, -1) for problem_id in ids])
    kept = scored.select(number_P >= 0)
    number_P = number_P[number_P >= 0]
    unit_P = None if kept.unit_P is None else kept.unit_P[np.argsort(number_P)]
    return replace(kept, problem_R=number_P[kept.problem_R], unit_P=unit_P)
