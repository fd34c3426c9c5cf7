"""Accuracy and calibration at smaller budgets (RLCM §4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from studies.paper.report.results_index import ResultsIndex, benchmark_of, title_of
from studies.paper.report.style import STYLES
from studies.paper.result import Result

_SHOWN = 6
"""Number of budgets in the table."""


def budgets(index: ResultsIndex) -> Block:
    """A figure of every budget, and a table of some."""
    firsts = [result for method in METHODS if (result := index.first(method))]
    intro = (
        "Every rollout is cut at the budget and forced to answer there; rollouts that ended "
        f"earlier keep their answer. Seed 0 of each method, {len(index.any.rollouts.problems)} "
        f"problems, {rollouts_said(firsts)}. Intervals and bands are 95% intervals by resampling "
        "problems, for each method alone. The counterpart in the paper is the figure of §4.3."
    )
    tokens = common_budgets(firsts)
    shown = tokens[:: max(1, -(-len(tokens) // _SHOWN))]
    shown = [*shown, *tokens[-1:]] if shown[-1:] != tokens[-1:] else shown
    head = ["method", "", *(f"{budget} tokens" for budget in shown)]
    plates = (Plate("budgets", partial(draw_budgets, index), _caption(firsts)),) if firsts else ()
    return Block("budgets", (intro, *plates, table(head, _rows(index, shown), names=2)))


def common_budgets(results: Sequence[Result]) -> list[int]:
    """The budgets, in tokens, at which all results have measurements; ascending."""
    every = [{at.tokens for at in benchmark_of(result).budgets} for result in results]
    return sorted(set.intersection(*every)) if every else []


def ece_at(result: Result, tokens: int) -> Estimate:
    """ECE of the result's own confidence source, at a measured budget."""
    return _ece(result, budget_at(result, tokens))


def draw_budgets(index: ResultsIndex) -> Figure:
    """Accuracy and ECE, a line per method."""
    figure, (accuracy, ece) = panels(2, 2, 2.7)
    for method in METHODS:
        if result := index.first(method):
            found = benchmark_of(result).budgets
            tokens, style, title = [at.tokens for at in found], STYLES[method], title_of(method)
            draw_curve(accuracy, tokens, [at.accuracy for at in found], style, title)
            draw_curve(ece, tokens, [_ece(result, at) for at in found], style, title)
    accuracy.set_title("accuracy")
    percent_axis(accuracy, "y", 5)
    ece.set_title("ECE")
    for panel in (accuracy, ece):
        panel.set_ylim(bottom=0)
        tokens_axis(panel)
    figure.supxlabel("budget, reasoning tokens")
    legend(figure)
    return figure


def _rows(index: ResultsIndex, tokens: Sequence[int]) -> Iterator[list[str]]:
    for method in METHODS:
        result = index.first(method)
        if result is None:
            yield [title_of(method), "", *[NOT_RUN] * len(tokens)]
            continue
        yield [
            title_of(method),
            "accuracy",
            *(in_full(budget_at(result, t).accuracy) for t in tokens),
        ]
        yield [title_of(method), "ECE", *(in_full(ece_at(result, t)) for t in tokens)]


def budget_at(result: Result, tokens: int) -> AtBudget:
    """What was measured at one of the result's budgets."""
    return next(at for at in benchmark_of(result).budgets if at.tokens == tokens)


def _ece(result: Result, at: AtBudget) -> Estimate:
    return at.ece.get(result.source, UNKNOWN)


def _caption(results: Sequence[Result]) -> Caption:
    said = []
    for result in results:
        if found := benchmark_of(result).budgets:
            first, last = found[0], found[-1]
            said.append(
                f"{result.title}: ECE {number(_ece(result, first))} at {first.tokens} tokens, "
                f"{number(_ece(result, last))} at {last.tokens}"
            )
    return Caption(
        "Accuracy and ECE by budget",
        "Left: the share of right answers. Right: the calibration error of the confidence there.",
        f"Accuracy and ECE against the token budget. {'; '.join(said)}.",
    )
