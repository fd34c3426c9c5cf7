"""Accuracy and calibration at smaller budgets (RLCM §4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from matplotlib.figure import Figure

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.panels import draw_curve, legend, panels, percent_axis, tokens_axis
from calibration.report_kit.wording import number
from rlcm_serve.evaluation.measuring.measures import AtBudget
from rlcm_serve.evaluation.report.results import UNKNOWN
from studies.paper.report.accuracy import METHODS, rollouts_said
from studies.paper.report.markdown import NOT_RUN, Block, in_full, table
from studies.paper.report.results_index import ResultsIndex, benchmark_of, one_or_mean, title_of
from studies.paper.report.style import STYLES
from studies.paper.result import Result

Runs = Mapping[str, Sequence[Result]]
"""The seeds of each method; empty where there are none yet."""
_SHOWN = 6
"""Number of budgets in the table."""


def budgets(index: ResultsIndex) -> Block:
    """A figure of every budget, and a table of some; of the first seed of each method."""
    firsts = {
        method: (one,) if (one := index.first(method)) else () for method in index.among(METHODS)
    }
    bands = "Intervals and bands are 95% intervals by resampling problems, for each method alone."
    return _block(index, firsts, "Seed 0 of each method", bands)


def budgets_over_seeds(index: ResultsIndex) -> Block:
    """The same of all seeds of each method."""
    bands = (
        "Intervals and bands reach from the lowest to the highest seed; of a single seed they are "
        "95% intervals over problems."
    )
    every = {method: index.of(method) for method in index.among(METHODS)}
    return _block(index, every, "Means over the seeds of each method", bands)


def _block(index: ResultsIndex, every: Runs, said: str, bands: str) -> Block:
    results = [result for seeds in every.values() for result in seeds]
    intro = (
        "Every rollout is cut at the budget and forced to answer there; rollouts that ended "
        f"earlier keep their answer. {said}, {len(index.any.rollouts.problems)} problems, "
        f"{rollouts_said(results)}. {bands} The counterpart in the paper is the figure of §4.3."
    )
    tokens = common_budgets(results)
    shown = tokens[:: max(1, -(-len(tokens) // _SHOWN))]
    shown = [*shown, *tokens[-1:]] if shown[-1:] != tokens[-1:] else shown
    head = ["method", "", *(f"{budget} tokens" for budget in shown)]
    plates = (Plate("budgets", partial(draw_budgets, every), _caption(every)),) if results else ()
    return Block("budgets", (intro, *plates, table(head, _rows(every, shown), names=2)))


def common_budgets(results: Sequence[Result]) -> list[int]:
    """The budgets, in tokens, at which all results have measurements; ascending."""
    every = [{at.tokens for at in benchmark_of(result).budgets} for result in results]
    return sorted(set.intersection(*every)) if every else []


def ece_at(result: Result, tokens: int) -> Estimate:
    """ECE of the result's own confidence source, at a measured budget."""
    return budget_at(result, tokens).ece.get(result.source, UNKNOWN)


def draw_budgets(every: Runs) -> Figure:
    """Accuracy and ECE, a line per method."""
    figure, (accuracy, ece) = panels(2, 2, 2.7)
    for method, seeds in every.items():
        if seeds:
            tokens, style, title = common_budgets(seeds), STYLES[method], title_of(method)
            draw_curve(accuracy, tokens, [_accuracy(seeds, at) for at in tokens], style, title)
            draw_curve(ece, tokens, [_ece(seeds, at) for at in tokens], style, title)
    accuracy.set_title("accuracy")
    percent_axis(accuracy, "y", 5)
    ece.set_title("ECE")
    for panel in (accuracy, ece):
        panel.set_ylim(bottom=0)
        tokens_axis(panel)
    figure.supxlabel("budget, reasoning tokens")
    legend(figure)
    return figure


def _rows(every: Runs, tokens: Sequence[int]) -> Iterator[list[str]]:
    for method, seeds in every.items():
        if not seeds:
            yield [title_of(method), "", *[NOT_RUN] * len(tokens)]
            continue
        yield [title_of(method), "accuracy", *(in_full(_accuracy(seeds, at)) for at in tokens)]
        yield [title_of(method), "ECE", *(in_full(_ece(seeds, at)) for at in tokens)]


def budget_at(result: Result, tokens: int) -> AtBudget:
    """What was measured at one of the result's budgets."""
    return next(at for at in benchmark_of(result).budgets if at.tokens == tokens)


def _accuracy(seeds: Sequence[Result], tokens: int) -> Estimate:
    return one_or_mean([budget_at(result, tokens).accuracy for result in seeds])


def _ece(seeds: Sequence[Result], tokens: int) -> Estimate:
    return one_or_mean([ece_at(result, tokens) for result in seeds])


def _caption(every: Runs) -> Caption:
    said = []
    for method, seeds in every.items():
        if found := common_budgets(seeds):
            first, last = found[0], found[-1]
            said.append(
                f"{title_of(method)}: ECE {number(_ece(seeds, first))} at {first} tokens, "
                f"{number(_ece(seeds, last))} at {last}"
            )
    return Caption(
        "Accuracy and ECE by budget",
        "Left: the share of right answers. Right: the calibration error of the confidence there.",
        f"Accuracy and ECE against the token budget. {'; '.join(said)}.",
    )
