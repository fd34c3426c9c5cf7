"""The main results: how often the model is right, and how well its confidence is calibrated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Card, Cards, Folded, Part, Section, Text
from calibration.report_kit.tables import Cell, Row, Table, number_cell, share_cell
from calibration.report_kit.wording import (
    TOO_FEW,
    count,
    listed,
    number,
    number_interval,
    share,
    share_in_full,
    share_interval,
    tokens,
)
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures
from rlcm_serve.evaluation.report.metrics import COLUMNS, METRICS
from rlcm_serve.evaluation.report.style import is_probability, title_of
from rlcm_serve.evaluation.report.words import words

UNKNOWN = Estimate(None)


def headline(run: RunMeasures) -> str:
    """The run in one or two sentences."""
    if len(run.benchmarks) == 1:
        (benchmark,) = run.benchmarks
        right = f"It answers {share_in_full(benchmark.accuracy)} of {benchmark.title} right."
    else:
        titles = listed([benchmark.title for benchmark in run.benchmarks])
        accuracy = mean([benchmark.accuracy for benchmark in run.benchmarks])
        right = f"It answers {share(accuracy)} right on average over {titles}, weighted equally."
    gap = _gap(run)
    if gap is None or not is_probability(run.source):
        return right
    name = title_of(run.source)
    if abs(gap) < 0.005:
        return f"{right} Its confidence ({name}) is on average as high as its accuracy."
    direction = "high" if gap > 0 else "low"
    points_off = f"{100 * abs(gap):.1f} points"
    return f"{right} Its confidence ({name}) is on average {points_off} too {direction}."


def cards(run: RunMeasures) -> Cards:
    """The key numbers; means over benchmarks if there are several."""
    own = [benchmark.by_source(run.source) for benchmark in run.benchmarks]
    metrics = [found.metrics for found in own if found]
    several = len(run.benchmarks) > 1
    accuracy = mean([b.accuracy for b in run.benchmarks])
    thought = mean([b.tokens for b in run.benchmarks])
    shown = [Card("accuracy (Pass@1)", share(accuracy), _under(accuracy, share_interval, several))]
    for name, title in (("ece", "calibration error (ECE)"), ("auroc", "ranking (AUROC)")):
        if metrics:
            found = mean([of.get(name, UNKNOWN) for of in metrics])
            shown.append(Card(title, number(found), _under(found, number_interval, several)))
    shown.append(
        Card(
            "tokens per rollout",
            tokens(thought.value or 0),
            _under(thought, lambda found: number_interval(found, 0), several),
        )
    )
    return Cards(shown)


def section(run: RunMeasures) -> Section:
    """The main table (RLCM Table 1)."""
    rows = [_row(run, benchmark) for benchmark in run.benchmarks]
    if len(run.benchmarks) > 1:
        rows.append(_overall(run))
    head = ["benchmark", "problems", "accuracy", "PCE", "ECE", "tokens", "ended", "no answer"]
    content: list[Part] = [Table(words("results", run=run), head, rows)]
    if not is_probability(run.source):
        content.append(Text(words("no_probability", run=run), "note"))
    if tables := [_by_part(benchmark) for benchmark in run.benchmarks if benchmark.parts]:
        parts = max(len(benchmark.parts) for benchmark in run.benchmarks)
        content.append(Folded(f"The same for each of {parts} parts", tables))
    benchmarks = run.benchmarks
    finding = words("finding_results", benchmarks=benchmarks) if len(benchmarks) > 1 else None
    return words.section("results", content, finding)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """Mean over benchmarks; a single estimate stays as it is.

    Its interval combines those of the benchmarks, whose problems differ: it is as far from the mean
    as the root of the sum of their squared distances, over their number (Zou and Donner 2008).
    """
    if len(estimates) == 1:
        return estimates[0]
    values = [estimate.value for estimate in estimates if estimate.value is not None]
    if not values or len(values) < len(estimates):
        return UNKNOWN
    n, value = len(values), sum(values) / len(values)
    bounds = [(e.low, e.high) for e in estimates if e.low is not None and e.high is not None]
    if len(bounds) < n:
        return Estimate(value)
    down = hypot(*(at - low for at, (low, _) in zip(values, bounds, strict=True))) / n
    up = hypot(*(high - at for at, (_, high) in zip(values, bounds, strict=True))) / n
    return Estimate(value, value - down, value + up)


def main_figures(benchmark: BenchmarkMeasures, source: str) -> dict[str, Estimate]:
    """The figures of the main table under a source of confidence, by the names of `COLUMNS`."""
    own = benchmark.by_source(source)
    metrics = own.metrics if own else {}
    errors = {name: metrics.get(name, UNKNOWN) for name in COLUMNS[1:]}
    return {"accuracy": benchmark.accuracy, **errors}


def _row(run: RunMeasures, benchmark: BenchmarkMeasures) -> Row:
    figures = main_figures(benchmark, run.source)
    return Row(
        benchmark.title,
        [
            Cell(f"{benchmark.n_problems:,}", count(benchmark.n_rollouts, "rollout")),
            *(METRICS[name].cell(found) for name, found in figures.items()),
            number_cell(benchmark.tokens, 0),
            share_cell(benchmark.share("natural")),
            share_cell(benchmark.share("unread")),
        ],
    )


def _by_part(benchmark: BenchmarkMeasures) -> Table:
    """Families or levels of a benchmark's problems."""
    rows = [
        Row(
            part.name,
            [
                Cell(f"{part.n_problems:,}"),
                *(METRICS[name].cell(getattr(part, name)) for name in COLUMNS),
            ],
        )
        for part in benchmark.parts
    ]
    caption = words("by_part", title=benchmark.title)
    return Table(caption, ["part", "problems", *(METRICS[name].title for name in COLUMNS)], rows)


def _overall(run: RunMeasures) -> Row:
    found = [main_figures(benchmark, run.source) for benchmark in run.benchmarks]
    means = [METRICS[name].cell(mean([each[name] for each in found])) for name in COLUMNS]
    spent = number_cell(mean([benchmark.tokens for benchmark in run.benchmarks]), 0)
    return Row("mean of the benchmarks", [Cell(""), *means, spent, Cell(""), Cell("")])


def _under(estimate: Estimate, interval: Callable[[Estimate], str], several: bool) -> str:
    text = f"95%: {interval(estimate)}" if interval(estimate) else TOO_FEW
    return f"{text} (mean)" if several else text


def _gap(run: RunMeasures) -> float | None:
    """Mean confidence minus accuracy, averaged over benchmarks; None without either."""
    own = [(b.by_source(run.source), b.accuracy.value) for b in run.benchmarks]
    gaps = [found.mean - value for found, value in own if found and value is not None]
    return sum(gaps) / len(gaps) if gaps and len(gaps) == len(own) else None
