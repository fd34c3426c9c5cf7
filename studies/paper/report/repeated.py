"""Blocks of the study with three seeds of every method, beside those of the first one.

Accuracy against ECE (the paper's Figure 1), problems out of domain (the lower half of Table 1),
single phrases of doubt (App. E), and votes at every budget (App. F).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure

from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.palette import BLUE, INK, MUTED, ORANGE
from calibration.report_kit.panels import (
    draw_curve,
    legend,
    one_scale,
    panels,
    percent_axis,
    tokens_axis,
)
from calibration.report_kit.style import DASHES, DOTS, SOLID, Style
from calibration.report_kit.wording import number
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.report.metrics import COLUMNS
from studies.paper.report.ablations import Metrics, draw_points
from studies.paper.report.accuracy import arrow, metric_within, ranked_column
from studies.paper.report.budgets import budget_at, common_budgets
from studies.paper.report.markdown import NOT_RUN, Block, in_full, table
from studies.paper.report.results_index import (
    ResultsIndex,
    fewest_rollouts,
    mean_of,
    over_seeds,
    scored_alike,
    title_of,
)
from studies.paper.report.style import STYLES
from studies.paper.result import Result
from studies.paper.runs import ABLATED, AUTHORS, BASE, COMPARED

METHODS = (BASE, *COMPARED, *ABLATED, *AUTHORS)
VOTING = (BASE, "grpo", "rlcr", "rlcm")
_LINES: dict[str, tuple[str, Style]] = {
    "Pass@1": ("accuracy", Style(MUTED, "v", DOTS)),
    "majority": ("majority", Style(ORANGE, "s", DASHES)),
    "weighted by confidence": ("confidence", Style(BLUE, "o", SOLID)),
    "oracle": ("oracle", Style(INK, "^", DOTS)),
}
_SHOWN = 5
"""Number of budgets in the table of votes."""


def tradeoff(index: ResultsIndex) -> Block:
    """Accuracy against ECE, a point per method."""
    intro = (
        "By the method's own source of confidence; the mean over seeds, the lowest and the highest "
        "seed. The counterpart in the paper is Figure 1."
    )
    found = _metrics(index)
    if not found:
        return Block("tradeoff", (intro, NOT_RUN))
    said = "; ".join(
        f"{title_of(method)}: accuracy {number(own['accuracy'])}, ECE {number(own['ece'])}"
        for method, own in found.items()
    )
    caption = Caption("Accuracy against ECE", "Up and to the left is better.", f"{said}.")
    return Block("tradeoff", (intro, Plate("tradeoff", partial(draw_tradeoff, found), caption)))


def draw_tradeoff(found: dict[str, Metrics]) -> Figure:
    """A point per method with its range over seeds."""
    figure, (panel,) = panels(1, 1, 3.3)
    for method, metrics in found.items():
        draw_points(panel, [metrics], STYLES[method], title_of(method))
    panel.set_xlim(left=0)
    panel.set_xlabel("ECE")
    panel.set_ylabel("accuracy")
    percent_axis(panel, "y", 5)
    legend(figure)
    return figure


def domain(index: ResultsIndex) -> Block:
    """Problems of the kind that reinforcement learning does not see, beside the trained ones."""
    seen = {method: index.of(method) for method in index.among(METHODS)}
    unseen = {method: tuple(map(_out_of_domain, seeds)) for method, seeds in seen.items()}
    results = [result for seeds in (*seen.values(), *unseen.values()) for result in seeds]
    n_rollouts = fewest_rollouts(results)
    intro = (
        f"{len(_out_of_domain(index.any).rollouts.problems)} problems of a kind that the training "
        "does not see, which no other table here counts, beside the others. Mean over seeds, below "
        "it the lowest and the highest. Best in bold, second best underlined. The counterpart in "
        "the paper is the lower half of Table 1."
    )
    panels = {"out of domain": unseen, "trained kinds": seen}
    columns = [
        ranked_column(
            [over_seeds(seeds, metric_within("", name, n_rollouts)) for seeds in every.values()],
            name,
        )
        for every in panels.values()
        for name in COLUMNS
    ]
    head = ["method", *(f"{title}<br>{arrow(name)}" for title in panels for name in COLUMNS)]
    rows = [
        [title_of(method), *(cells if seen[method] else [NOT_RUN] * len(cells))]
        for method, *cells in zip(seen, *columns, strict=True)
    ]
    return Block("domain", (intro, table(head, rows)))


def phrases(index: ResultsIndex) -> Block:
    """Every phrase of doubt that occurs, per rollout."""
    intro = (
        "How often each phrase of App. E's list occurs in a rollout: mean over seeds, below it the "
        "lowest and the highest. Phrases that no method writes are left out."
    )
    every = {method: index.of(method) for method in index.among(METHODS) if index.of(method)}
    known = {
        marker.name: marker.category
        for seeds in every.values()
        for result in seeds
        for marker in result.phrases
    }
    if not known:
        return Block("phrases", (intro, "No result holds phrases."))
    head = ["phrase", "category", *(title_of(method) for method in every)]
    rows = [
        [name, category, *(in_full(over_seeds(own, _often(name))) for own in every.values())]
        for name, category in sorted(known.items(), key=lambda item: (item[1], item[0]))
    ]
    return Block("phrases", (intro, table(head, rows, names=2)))


def votes_at_budgets(index: ResultsIndex) -> Block:
    """Votes of rollouts that are cut at each budget."""
    intro = (
        "Every rollout is cut at the budget and forced to answer there; all rollouts of a problem "
        "vote. Mean over seeds. The table has the gain of confidence weights over a majority, in "
        "percentage points, below it the lowest and the highest seed. The counterpart in the "
        "paper is the figure of App. F."
    )
    every = {method: index.of(method) for method in index.among(VOTING) if index.of(method)}
    budgets = common_budgets([result for seeds in every.values() for result in seeds])
    if not budgets:
        return Block("votes-budgets", (intro, NOT_RUN))
    shown = budgets[:: max(1, -(-len(budgets) // _SHOWN))]
    rows = [
        [title_of(method), *(in_full(over_seeds(own, _gain_at(at)), 1) for at in shown)]
        for method, own in every.items()
    ]
    last = shown[-1]
    said = "; ".join(
        f"{title_of(method)}: "
        + ", ".join(
            f"{line} {number(over_seeds(own, _share(field, last)))}"
            for line, (field, _) in _LINES.items()
        )
        for method, own in every.items()
    )
    caption = Caption(
        "Votes by budget",
        "The oracle is right if any rollout is. The distance from the weighted vote to it is lost "
        "by choosing among the answers.",
        f"At {last} tokens: {said}.",
    )
    plate = Plate("votes-budgets", partial(draw_votes_at_budgets, every, budgets), caption)
    head = ["method", *(f"{at} tokens" for at in shown)]
    return Block("votes-budgets", (intro, plate, table(head, rows)))


def draw_votes_at_budgets(every: dict[str, tuple[Result, ...]], budgets: Sequence[int]) -> Figure:
    """A panel per method, a line per way to answer."""
    figure, axes = panels(len(every), 2, 2.3)
    for panel, (method, own) in zip(axes, every.items(), strict=True):
        for line, (field, style) in _LINES.items():
            found = [over_seeds(own, _share(field, at)) for at in budgets]
            draw_curve(panel, budgets, found, style, line, band=False)
        panel.set_title(title_of(method))
        percent_axis(panel, "y", 5)
        tokens_axis(panel)
    one_scale(axes)
    figure.supxlabel("budget, reasoning tokens")
    figure.supylabel("questions answered right")
    legend(figure)
    return figure


def _out_of_domain(result: Result) -> Result:
    """The result with its rollouts out of domain in place of the others.

    Raises:
        RequestRefused: it has none.
    """
    if result.out_of_domain is None:
        raise RequestRefused(
            "results", f"{result.name} has no problems out of domain: make the run again"
        )
    return replace(result, rollouts=result.out_of_domain)


def _metrics(index: ResultsIndex) -> dict[str, Metrics]:
    """Accuracy and ECE of each method that has runs, over its seeds."""
    every = {method: own for method in index.among(METHODS) if (own := index.of(method))}
    n_rollouts = fewest_rollouts(result for seeds in every.values() for result in seeds)
    return {method: dict(_over_seeds(own, n_rollouts)) for method, own in every.items()}


def _over_seeds(results: Sequence[Result], n_rollouts: int) -> Iterator[tuple[str, Estimate]]:
    names = ("accuracy", "ece")
    found = [estimate_metrics(scored_alike(own, n_rollouts), names, resamples=1) for own in results]
    for name in names:
        yield name, mean_of([own[name] for own in found])


def _often(phrase: str) -> Callable[[Result], float | None]:
    def of(result: Result) -> float | None:
        found = (own for own in result.phrases if own.name == phrase)
        return next((own.per_rollout.value for own in found), 0.0)

    return of


def _share(field: str, tokens: int) -> Callable[[Result], float | None]:
    def of(result: Result) -> float | None:
        found: Estimate = getattr(budget_at(result, tokens), field)
        return found.value

    return of


def _gain_at(tokens: int) -> Callable[[Result], float | None]:
    def of(result: Result) -> float | None:
        at = budget_at(result, tokens)
        if at.confidence.value is None or at.majority.value is None:
            return None
        return 100 * (at.confidence.value - at.majority.value)

    return of
