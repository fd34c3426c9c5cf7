"""The main results: how often the model is right, and how well its confidence is calibrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Card, Cards, Part, Section, Text
from calibration.report_kit.tables import Cell, Row, Table, number_cell
from calibration.report_kit.wording import (
    UNDEFINED,
    count,
    listed,
    number,
    number_interval,
    percent,
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
            "reasoning and answer" + ("; mean over benchmarks" if several else ""),
        )
    )
    return Cards(shown)


def section(run: RunMeasures) -> Section:
    """The main table (RLCM Table 1)."""
    rows = [row for benchmark in run.benchmarks for row in _rows(run, benchmark)]
    if len(run.benchmarks) > 1:
        rows.append(_overall(run))
    head = ["benchmark", "problems", "accuracy", "PCE", "ECE", "tokens", "ended", "no answer"]
    content: list[Part] = [Table(words("results", run=run), head, rows)]
    if not is_probability(run.source):
        content.append(Text(words("no_probability", run=run), "note"))
    return words.section("results", content)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """Mean over benchmarks, without an interval; a single estimate stays as it is."""
    if len(estimates) == 1:
        return estimates[0]
    values = [estimate.value for estimate in estimates if estimate.value is not None]
    if not values or len(values) < len(estimates):
        return UNKNOWN
    return Estimate(sum(values) / len(values))


def main_figures(benchmark: BenchmarkMeasures, source: str) -> dict[str, Estimate]:
    """The figures of the main table under a source of confidence, by the names of `COLUMNS`."""
    own = benchmark.by_source(source)
    metrics = own.metrics if own else {}
    errors = {name: metrics.get(name, UNKNOWN) for name in COLUMNS[1:]}
    return {"accuracy": benchmark.accuracy, **errors}


def _rows(run: RunMeasures, benchmark: BenchmarkMeasures) -> Iterator[Row]:
    figures = main_figures(benchmark, run.source)
    yield Row(
        benchmark.title,
        [
            Cell(f"{benchmark.n_problems:,}", count(benchmark.n_rollouts, "rollout")),
            *(METRICS[name].cell(found) for name, found in figures.items()),
            number_cell(benchmark.tokens, 0),
            Cell(percent(benchmark.natural)),
            Cell(percent(benchmark.unread)),
        ],
    )
    for part in benchmark.parts:
        of_part = [METRICS[name].cell(getattr(part, name)) for name in COLUMNS]
        cells = [Cell(f"{part.n_problems:,}"), *of_part, *[Cell("")] * 3]
        yield Row(part.name, cells, indented=True)


def _overall(run: RunMeasures) -> Row:
    found = [main_figures(benchmark, run.source) for benchmark in run.benchmarks]
    means = [METRICS[name].cell(mean([each[name] for each in found])) for name in COLUMNS]
    spent = number_cell(mean([benchmark.tokens for benchmark in run.benchmarks]), 0)
    return Row("mean of the benchmarks", [Cell(""), *means, spent, Cell(""), Cell("")])


def _under(estimate: Estimate, interval: Callable[[Estimate], str], several: bool) -> str:
    if several:
        return "mean of the benchmarks"
    text = interval(estimate)
    return f"95%: {text}" if text else UNDEFINED


def _gap(run: RunMeasures) -> float | None:
    """Mean confidence minus accuracy, averaged over benchmarks; None without either."""
    own = [(b.by_source(run.source), b.accuracy.value) for b in run.benchmarks]
    gaps = [found.mean - value for found, value in own if found and value is not None]
    return sum(gaps) / len(gaps) if gaps and len(gaps) == len(own) else None
