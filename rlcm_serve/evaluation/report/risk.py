"""Section: exits at a risk target, realised risk and tokens, and the cheapest source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from calibration.report_kit.content import Folded, Part, Plate, Section, Text
from calibration.report_kit.wording import count, listed
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, Controlled, RunMeasures
from rlcm_serve.evaluation.report import findings, risk_figures, risk_tables
from rlcm_serve.evaluation.report.words import plate_of, words


def section(run: RunMeasures) -> Section:
    """Target against realised risk, tokens against target, and the frontier of every source."""
    return words.section("risk", tuple(_content(run)), findings.risk(run))


def _content(run: RunMeasures) -> Iterator[Part]:
    controlled = [benchmark for benchmark in run.benchmarks if benchmark.controlled]
    if not controlled:
        yield words.missing("no_target")
    for risk in dict.fromkeys(found.risk for b in controlled for found in b.controlled):
        yield from _one_risk(run, risk, list(_of_risk(controlled, risk)))
    for benchmark in controlled:
        yield Folded(
            f"{benchmark.title}: every target, source and origin",
            [risk_tables.every_target(benchmark)],
        )
    frontiers = [benchmark for benchmark in run.benchmarks if benchmark.frontiers]
    if not frontiers:
        yield words.missing("no_frontier")
        return
    draw = partial(risk_figures.draw_frontier, frontiers)
    yield words.plate("frontier", draw, benchmarks=frontiers)
    yield from map(risk_tables.at_equal_error, frontiers)
    yield from (risk_tables.before_the_end(each) for each in frontiers if each.oracle_exit)


def _one_risk(
    run: RunMeasures, risk: str, benchmarks: Sequence[BenchmarkMeasures]
) -> Iterator[Part]:
    for benchmark in benchmarks:
        if risk_figures.certified_sources(benchmark):
            yield risk_tables.by_target(benchmark, risk)
            yield _target_risk(run, benchmark, risk)
            yield _target_tokens(run, benchmark, risk)
        if text := risk_tables.nowhere_certified(benchmark, risk):
            yield Text(text, "empty")


def _of_risk(benchmarks: Iterable[BenchmarkMeasures], risk: str) -> Iterator[BenchmarkMeasures]:
    """The benchmarks that have targets of this risk, with these targets alone."""
    for benchmark in benchmarks:
        chosen = tuple(found for found in benchmark.controlled if found.risk == risk)
        if chosen:
            yield replace(benchmark, controlled=chosen)


def _target_risk(run: RunMeasures, benchmark: BenchmarkMeasures, risk: str) -> Plate:
    numbers = sorted({found.n_problems for found in benchmark.controlled if found.n_problems})
    met = [found for found in benchmark.controlled if found.measured_risk.value is not None]
    return plate_of(
        run,
        benchmark,
        "target_risk",
        partial(risk_figures.draw_target_risk, benchmark),
        f"target-risk-{risk}",
        risk=risk,
        measured_on=listed([count(number, "problem") for number in numbers]),
        origins=list(dict.fromkeys(str(found.origin) for found in benchmark.controlled)),
        met=met,
        kept=sum((found.measured_risk.value or 0.0) <= found.alpha for found in met),
    )


def _target_tokens(run: RunMeasures, benchmark: BenchmarkMeasures, risk: str) -> Plate:
    return plate_of(
        run,
        benchmark,
        "target_tokens",
        partial(risk_figures.draw_target_tokens, benchmark),
        f"target-tokens-{risk}",
        risk=risk,
        least=_cheapest(benchmark),
        has_intervals=any(found.spends.interval for found in benchmark.controlled),
    )


def _cheapest(benchmark: BenchmarkMeasures) -> Controlled:
    spent = [found for found in benchmark.controlled if found.tokens_share is not None]
    return min(spent, key=lambda found: found.tokens_share or 0.0)
