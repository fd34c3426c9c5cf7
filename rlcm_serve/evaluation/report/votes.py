"""Section: one answer from several rollouts, by vote (RLCM §5.2, App. F)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.metrics.share_intervals import difference_of_shares
from calibration.metrics.vote_curves import VoteCurves
from calibration.report_kit.content import Part, Section
from calibration.report_kit.palette import INK
from calibration.report_kit.panels import draw_curve, drawable, legend, percent_axis, tokens_axis
from calibration.report_kit.tables import Cell, Row, Table, share_cell
from calibration.report_kit.wording import TOO_FEW, in_points, number_interval, signed
from rlcm_serve.evaluation.measuring.measures import BenchmarkMeasures, RunMeasures, SourceMeasures
from rlcm_serve.evaluation.report import findings
from rlcm_serve.evaluation.report.style import (
    MAJORITY,
    ORACLE,
    PASS_AT_1,
    STYLES,
    panel_per_benchmark,
    row_per_benchmark,
    title_of,
)
from rlcm_serve.evaluation.report.words import words

_PLAIN = (
    ("oracle", "oracle", ORACLE),
    ("majority", "majority", MAJORITY),
    ("pass_at_1", "Pass@1", PASS_AT_1),
)
"""Field, title and style of the votes that need no confidence."""
Voting = Sequence[tuple[BenchmarkMeasures, SourceMeasures]]
"""Benchmarks with several rollouts, and whose confidence weighs the votes there."""


def section(run: RunMeasures) -> Section:
    """Votes against the number of rollouts, and against the budget."""
    return words.section("voting", tuple(_content(run)), findings.voting(run))


def _content(run: RunMeasures) -> Iterator[Part]:
    voting = list(_voting(run))
    if not voting:
        yield words.missing("no_votes")
        return
    yield words.plate("votes", partial(draw_votes, voting), voting=voting)
    for benchmark, _ in voting:
        yield _table(benchmark)
    cut = [(benchmark, found) for benchmark, found in voting if len(benchmark.budgets) > 1]
    if cut:
        yield words.plate("votes_by_budget", partial(draw_by_budget, cut), run=run, voting=cut)


def _voting(run: RunMeasures) -> Iterator[tuple[BenchmarkMeasures, SourceMeasures]]:
    """The run's own source weighs the votes, else the first one."""
    for benchmark in run.benchmarks:
        found = benchmark.by_source(run.source) or next(iter(benchmark.sources), None)
        if found and max(found.votes.n, default=0) > 1:
            yield benchmark, found


def draw_votes(voting: Voting) -> Figure:
    """A row per benchmark: accuracy against n, and what each source adds to a plain majority."""
    figure, rows = row_per_benchmark(
        [benchmark.title for benchmark, _ in voting],
        ("share right", "gain over majority, percentage points"),
        (2.9, 2.2),
        "rollouts that vote, n",
    )
    for (left, right), (benchmark, own) in zip(rows, voting, strict=True):
        votes = own.votes
        for name, title, style in _PLAIN:
            draw_curve(left, votes.n, getattr(votes, name), style, title, band=False)
        label = _weighted_by(own.source)
        draw_curve(left, votes.n, votes.confidence, STYLES[own.source], label)
        percent_axis(left, "y", 5)
        _draw_gains(right, benchmark)
        for panel in (left, right):
            panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            panel.set_xlim(0.8, max(votes.n) + 0.2)
    legend(figure)
    return figure


def draw_by_budget(voting: Voting) -> Figure:
    """Votes of all rollouts, cut at each budget: a panel per benchmark."""
    figure, axes, columns = panel_per_benchmark(
        [benchmark.title for benchmark, _ in voting],
        (3.3, 2.5),
        "budget of each rollout, reasoning tokens",
        "share right",
    )
    for panel, (benchmark, own) in zip(axes, voting, strict=True):
        tokens_B = [at.tokens for at in benchmark.budgets]
        for name, title, style in _PLAIN:
            field = "accuracy" if name == "pass_at_1" else name
            estimates = [getattr(at, field) for at in benchmark.budgets]
            draw_curve(panel, tokens_B, estimates, style, title, band=False)
        weighted = [at.confidence for at in benchmark.budgets]
        draw_curve(panel, tokens_B, weighted, STYLES[own.source], _weighted_by(own.source))
        percent_axis(panel, "y", 5)
        tokens_axis(panel, 6 if columns == 1 else 3)
        panel.set_ylim(bottom=0)
    legend(figure)
    return figure


def _draw_gains(panel: Axes, benchmark: BenchmarkMeasures) -> None:
    panel.axhline(0, color=INK, linewidth=1)
    for found in benchmark.sources:
        gains = _gains(found.votes)
        panel.plot(
            found.votes.n,
            drawable(None if gain.value is None else 100 * gain.value for gain in gains),
            label=_weighted_by(found.source),
            markevery=max(1, len(gains) // 10),
            **STYLES[found.source].line(),
        )
    _draw_band(panel, benchmark.sources[0].votes, STYLES[benchmark.sources[0].source].color)
    panel.yaxis.set_major_locator(MaxNLocator(5))


def _draw_band(panel: Axes, votes: VoteCurves, color: str) -> None:
    """The interval of the first source's gains."""
    bounded = [
        (n, 100 * gain.low, 100 * gain.high)
        for n, gain in zip(votes.n, votes.gain, strict=False)
        if gain.low is not None and gain.high is not None
    ]
    if bounded:
        n, low, high = zip(*bounded, strict=True)
        panel.fill_between(n, low, high, color=color, alpha=0.14, linewidth=0)


def _table(benchmark: BenchmarkMeasures) -> Table:
    """All strategies with all rollouts."""
    first = benchmark.sources[0].votes
    rows = [
        Row("Pass@1", [share_cell(first.pass_at_1[-1]), Cell("")]),
        Row("majority", [share_cell(first.majority[-1]), Cell("")]),
    ]
    for found in benchmark.sources:
        gain = in_points(_gains(found.votes)[-1])
        below = number_interval(gain, 1) or TOO_FEW
        cells = [share_cell(found.votes.confidence[-1]), Cell(signed(gain, 1), below)]
        rows.append(Row(_weighted_by(found.source), cells))
    rows.append(Row("oracle", [share_cell(first.oracle[-1]), Cell("")]))
    caption = words("votes_table", title=benchmark.title, n=first.n[-1])
    return Table(caption, ["vote", "share right", "gain over majority, points"], rows)


def _weighted_by(source: str) -> str:
    return f"weighted by {title_of(source)}"


def _gains(votes: VoteCurves) -> Sequence[Estimate]:
    """Of the weighted vote over the majority; without intervals in files of older evaluations."""
    return votes.gain or [
        difference_of_shares(Estimate(weighted.value), Estimate(plain.value))
        for weighted, plain in zip(votes.confidence, votes.majority, strict=True)
    ]
