"""Section: one answer from several rollouts, by vote (RLCM §5.2, App. F)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.report_kit.content import Caption, Part, Plate, Section, Text
from calibration.report_kit.palette import INK
from calibration.report_kit.panels import (
    draw_curve,
    drawable,
    legend,
    panels,
    percent_axis,
    rows_of_panels,
    tokens_axis,
)
from calibration.report_kit.tables import Cell, Row, Table, share_cell
from calibration.report_kit.wording import points, share, share_in_full
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures, Votes
from rlcm_serve.evaluation.report.benchmarks import own_source
from rlcm_serve.evaluation.report.style import MAJORITY, ORACLE, PASS_AT_1, STYLES, title_of

PLAIN = (
    ("oracle", "oracle", ORACLE),
    ("majority", "majority", MAJORITY),
    ("pass_at_1", "Pass@1", PASS_AT_1),
)
"""Field, title and style of the votes that need no confidence."""


def section(run: RunMeasures) -> Section:
    """Votes against the number of rollouts, and against the budget."""
    return Section(
        "voting",
        "One answer from several rollouts",
        "If a question is sampled n times and the answers vote, how often is the winner right? "
        "Does it help to weight each vote by its confidence?",
        tuple(_content(run)),
    )


def _content(run: RunMeasures) -> Iterator[Part]:
    voting = [b for b in run.benchmarks if _own_votes(run, b) is not None]
    if not voting:
        yield Text(
            "Every problem has a single rollout, so there is nothing to vote on. Record several "
            "with --rollouts.",
            "empty",
        )
        return
    yield Plate("votes", partial(draw_votes, run, voting), _of_votes(run, voting))
    yield from map(_table, voting)
    cut = [benchmark for benchmark in voting if len(benchmark.budgets) > 1]
    if cut:
        yield Plate("votes-by-budget", partial(draw_by_budget, run, cut), _of_budgets(run, cut))


def draw_votes(run: RunMeasures, benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """A row per benchmark: accuracy against n, and what each source adds to a plain majority."""
    figure, rows = rows_of_panels(len(benchmarks), 2, 2.9 if len(benchmarks) == 1 else 2.2)
    for (left, right), benchmark in zip(rows, benchmarks, strict=True):
        votes = _own_votes(run, benchmark)
        if votes is None:
            continue
        for name, title, style in PLAIN:
            draw_curve(left, votes.n, getattr(votes, name), style, title, band=False)
        weights = _weights(run, benchmark)
        draw_curve(left, votes.n, votes.confidence, STYLES[weights], _weighted_by(weights))
        percent_axis(left, "y", 5)
        _draw_gains(right, benchmark)
        for panel in (left, right):
            panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            panel.set_xlim(0.8, max(votes.n) + 0.2)
        if len(benchmarks) > 1:
            left.set_ylabel(benchmark.title)
    rows[0][0].set_title("share right")
    rows[0][1].set_title("gain over majority, percentage points")
    figure.supxlabel("rollouts that vote, n")
    legend(figure)
    return figure


def draw_by_budget(run: RunMeasures, benchmarks: Sequence[BenchmarkMeasures]) -> Figure:
    """Votes of all rollouts, cut at each budget: a panel per benchmark."""
    columns = min(len(benchmarks), 3)
    figure, axes = panels(len(benchmarks), columns, 3.3 if columns == 1 else 2.5)
    for panel, benchmark in zip(axes, benchmarks, strict=True):
        tokens_B = [at.tokens for at in benchmark.budgets]
        for name, title, style in PLAIN:
            field = "accuracy" if name == "pass_at_1" else name
            estimates = [getattr(at, field) for at in benchmark.budgets]
            draw_curve(panel, tokens_B, estimates, style, title, band=False)
        weighted = [at.confidence for at in benchmark.budgets]
        weights = _weights(run, benchmark)
        draw_curve(panel, tokens_B, weighted, STYLES[weights], _weighted_by(weights))
        percent_axis(panel, "y", 5)
        tokens_axis(panel, 6 if columns == 1 else 3)
        panel.set_ylim(bottom=0)
        panel.set_title("" if len(benchmarks) == 1 else benchmark.title)
    figure.supxlabel("budget of each rollout, reasoning tokens")
    figure.supylabel("share right")
    legend(figure)
    return figure


def _draw_gains(panel: Axes, benchmark: BenchmarkMeasures) -> None:
    panel.axhline(0, color=INK, linewidth=1)
    for found in benchmark.sources:
        gains = _gains(found.votes)
        panel.plot(
            found.votes.n,
            drawable(None if gain is None else 100 * gain for gain in gains),
            label=_weighted_by(found.source),
            markevery=max(1, len(gains) // 10),
            **STYLES[found.source].line(),
        )
    panel.yaxis.set_major_locator(MaxNLocator(5))


def _table(benchmark: BenchmarkMeasures) -> Table:
    """All strategies with all rollouts."""
    first = benchmark.sources[0].votes
    n = first.n[-1]
    plain = [
        Row(title, [share_cell(at), Cell("")])
        for title, at in (
            ("Pass@1", first.pass_at_1[-1]),
            ("majority", first.majority[-1]),
        )
    ]
    weighted = []
    for found in benchmark.sources:
        at, gain = found.votes.confidence[-1], _gains(found.votes)[-1]
        weighted.append(
            Row(
                _weighted_by(found.source),
                [share_cell(at), Cell("" if gain is None else points(gain))],
            )
        )
    oracle = Row("oracle", [share_cell(first.oracle[-1]), Cell("")])
    return Table(
        f"{benchmark.title}: share right with all n = {n} rollouts of a problem, with 95% "
        "intervals by resampling problems, and the gain over the majority of the same rollouts.",
        ["vote", "share right", "gain over majority"],
        [*plain, *weighted, oracle],
    )


def _of_votes(run: RunMeasures, benchmarks: Sequence[BenchmarkMeasures]) -> Caption:
    said = []
    for benchmark in benchmarks:
        votes = _own_votes(run, benchmark)
        if votes is not None:
            said.append(
                f"{benchmark.title}, n = {votes.n[-1]}: "
                + ", ".join(
                    f"{title} {share_in_full(getattr(votes, name)[-1])}" for name, title, _ in PLAIN
                )
                + f", {_weighted_by(_weights(run, benchmark))} "
                + share_in_full(votes.confidence[-1])
            )
    return Caption(
        "Votes by number of rollouts",
        "Left: share right. The band is the 95% interval of the weighted vote by resampling "
        "problems; intervals of the other curves are about as wide (see the table). Pass@1 is a "
        "single rollout. The oracle is right if any rollout is right, so no vote can do better. "
        "Right: the gain of weighting by each source over a plain majority. The curves of a panel "
        "share their problems and rollouts, so their difference is more precise than their "
        "intervals suggest. A gain smaller than one problem's share means nothing.",
        "Share right by vote. " + "; ".join(said) + ".",
    )


def _of_budgets(run: RunMeasures, benchmarks: Sequence[BenchmarkMeasures]) -> Caption:
    said = "; ".join(
        f"{benchmark.title}: majority from {share(benchmark.budgets[0].majority)} at "
        f"{benchmark.budgets[0].tokens:,} tokens to {share(benchmark.budgets[-1].majority)} at "
        f"{benchmark.budgets[-1].tokens:,}, confidence-weighted from "
        f"{share(benchmark.budgets[0].confidence)} to {share(benchmark.budgets[-1].confidence)}"
        for benchmark in benchmarks
    )
    return Caption(
        "Votes by budget",
        "All rollouts of a problem, each cut at the budget and forced to answer, with the same "
        f"votes as above and the confidence at the cut (weights: {title_of(run.source)}). To "
        "compare many short rollouts with few long ones, compare at equal n times budget.",
        f"Share right by vote and budget. {said}.",
    )


def _weights(run: RunMeasures, benchmark: BenchmarkMeasures) -> str:
    """The run's own source, else the first."""
    found = own_source(run, benchmark) or benchmark.sources[0]
    return found.source


def _weighted_by(source: str) -> str:
    return f"weighted by {title_of(source)}"


def _own_votes(run: RunMeasures, benchmark: BenchmarkMeasures) -> Votes | None:
    """Votes weighted by the run's own source, else by the first; None with a single rollout."""
    found = own_source(run, benchmark) or next(iter(benchmark.sources), None)
    return found.votes if found and max(found.votes.n, default=0) > 1 else None


def _gains(votes: Votes) -> list[float | None]:
    return [
        None if weighted.value is None or plain.value is None else weighted.value - plain.value
        for weighted, plain in zip(votes.confidence, votes.majority, strict=True)
    ]
