"""Section: calibration and ranking of each source of confidence at the end of a rollout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from calibration.report_kit.content import Part, Section
from calibration.report_kit.tables import Cell, Row, Table, number_cell, ranked
from calibration.report_kit.wording import NB, percent, tokens
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures, SourceMeasures
from rlcm_serve.evaluation.report import confidence_figures as figures
from rlcm_serve.evaluation.report import findings
from rlcm_serve.evaluation.report.metrics import METRICS
from rlcm_serve.evaluation.report.style import is_probability, title_of
from rlcm_serve.evaluation.report.words import plate_of, words

_OF_TRUTH = ("ece", "pce", "adaptive_ece", "brier", "nll")
_OF_ORDER = ("auroc", "aurc", "within_auroc")


def section(run: RunMeasures) -> Section:
    """Reliability, distributions, risk-coverage, ranking, and every metric with its interval."""
    return words.section("confidence", tuple(_content(run)), findings.confidence(run))


def _content(run: RunMeasures) -> Iterator[Part]:
    benchmarks = [benchmark for benchmark in run.benchmarks if benchmark.sources]
    if not benchmarks:
        yield words.missing("no_source")
        return
    for benchmark in benchmarks:
        yield _calibration_table(benchmark)
        yield _ranking_table(benchmark)
    for benchmark in benchmarks:
        draw = partial(figures.draw_reliability, benchmark)
        yield plate_of(run, benchmark, "reliability", draw)
    for benchmark in benchmarks:
        draw = partial(figures.draw_distributions, benchmark)
        yield plate_of(run, benchmark, "distribution", draw)
    coverage = partial(figures.draw_coverage, benchmarks)
    yield words.plate("risk_coverage", coverage, benchmarks=benchmarks)
    if any(_is_ranked(found) for benchmark in benchmarks for found in benchmark.sources):
        yield words.plate("ranking", partial(figures.draw_ranking, benchmarks), run=run)
    else:
        yield words.missing("no_ranking")


def _calibration_table(benchmark: BenchmarkMeasures) -> Table:
    unclaimed = [title_of(s.source) for s in benchmark.sources if not is_probability(s.source)]
    rows = []
    for found, cells in _metric_cells(benchmark, _OF_TRUTH):
        dagger = "" if is_probability(found.source) else f"{NB}†"
        rows.append(Row(title_of(found.source) + dagger, cells))
    head = ["source", *(METRICS[name].title for name in _OF_TRUTH)]
    return Table(words("calibration_table", benchmark=benchmark, unclaimed=unclaimed), head, rows)


def _ranking_table(benchmark: BenchmarkMeasures) -> Table:
    rows = []
    for found, cells in _metric_cells(benchmark, _OF_ORDER):
        costs = [Cell(tokens(found.reading_tokens)), Cell(percent(found.missing))]
        rows.append(Row(title_of(found.source), [*cells, *costs]))
    titles = [METRICS[name].title for name in _OF_ORDER]
    head = ["source", *titles, "reading tokens", "missing"]
    return Table(words("ranking_table", benchmark=benchmark), head, rows)


def _metric_cells(
    benchmark: BenchmarkMeasures, names: Sequence[str]
) -> Iterator[tuple[SourceMeasures, list[Cell]]]:
    """Every source with its cells; the best figure of a column, as printed, is bold."""
    sources = benchmark.sources
    ranks = {
        name: ranked([found.metrics[name] for found in sources], METRICS[name].higher_is_better)
        for name in names
    }
    for row, found in enumerate(sources):
        cells = []
        for name in names:
            is_best = ranks[name][row] == "best"
            cells.append(number_cell(found.metrics[name], rank="best" if is_best else ""))
        yield found, cells


def _is_ranked(found: SourceMeasures) -> bool:
    return any(found.metrics[name].value is not None for name in ("auroc", "within_auroc"))
