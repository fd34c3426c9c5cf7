"""Distributions of confidence (RLCM App. D), and doubt in the reasoning (App. E)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from matplotlib.figure import Figure

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.panels import legend, panels
from calibration.report_kit.wording import number, share
from rlcm_serve.evaluation.measuring.markers import Category
from rlcm_serve.evaluation.measuring.measures import Marker
from rlcm_serve.evaluation.report.confidence_figures import draw_distribution
from rlcm_serve.evaluation.report.style import CATEGORY_TITLES
from rlcm_serve.evaluation.report.style import title_of as source_title
from studies.paper.report.accuracy import METHODS
from studies.paper.report.markdown import NOT_RUN, Block, in_full, table
from studies.paper.report.results_index import (
    ResultsIndex,
    benchmark_of,
    over_seeds,
    source_of,
    title_of,
)
from studies.paper.result import Result

_COLUMNS: dict[str, Callable[[Result], float | None]] = {
    "mean": lambda result: source_of(result).mean,
    "median": lambda result: source_of(result).median,
    "AUROC": lambda result: source_of(result).metrics["auroc"].value,
    "AUROC within problems": lambda result: source_of(result).metrics["within_auroc"].value,
    "says nothing": lambda result: source_of(result).missing,
}


def distributions(index: ResultsIndex) -> Block:
    """Histograms of confidence for right and wrong answers, with summary figures."""
    intro = (
        "Confidence of every rollout at its end, by the method's own source. Mean over seeds; "
        "below it the lowest and the highest seed, if there are several. No intervals: the table "
        "describes; the differences above compare. `says nothing` is the share of rollouts "
        "without a confidence, which count as 0. The counterpart in the paper is App. D."
    )
    rows = table(["method", "source", *_COLUMNS], _rows(index), names=2)
    there = [method for method in index.among(METHODS) if index.first(method)]
    if not there:
        return Block("confidence", (intro, rows))
    plate = Plate("confidence", partial(draw_distributions, index, there), _caption(index, there))
    return Block("confidence", (intro, rows, plate))


def markers(index: ResultsIndex) -> Block:
    """Phrases of doubt by category, per 1,000 tokens of reasoning."""
    intro = (
        "Phrases of doubt per 1,000 tokens of reasoning: mean over seeds, below it the lowest and "
        "the highest seed; for a single seed the 95% interval by resampling problems. The "
        "counterparts in the paper are §4.4 and App. E."
    )
    found = [
        benchmark_of(result).categories for m in index.among(METHODS) for result in index.of(m)
    ]
    written = any(marker.per_1000_tokens.value for categories in found for marker in categories)
    rows = table(["method", *(CATEGORY_TITLES[c] for c in Category)], _marked(index))
    if written or not found:
        return Block("markers", (intro, rows))
    silent = (
        "No method writes any of the phrases. The embedded model reasons in a notation of its "
        "own, so this says nothing about the paper's finding."
    )
    return Block("markers", (intro, rows, silent))


def draw_distributions(index: ResultsIndex, methods: Sequence[str]) -> Figure:
    """A panel per method, with its first seed."""
    figure, axes = panels(len(methods), 3, 1.95)
    for panel, method in zip(axes, methods, strict=True):
        if result := index.first(method):
            draw_distribution(panel, source_of(result))
            panel.set_title(f"{title_of(method)} ({source_title(result.source)})", fontsize=8.5)
    figure.supxlabel("confidence")
    figure.supylabel("share of the rollouts")
    legend(figure)
    return figure


def _rows(index: ResultsIndex) -> Iterator[list[str]]:
    for method in index.among(METHODS):
        seeds = index.of(method)
        if not seeds:
            yield [title_of(method), "", *[NOT_RUN] * len(_COLUMNS)]
            continue
        found = {name: over_seeds(seeds, of) for name, of in _COLUMNS.items()}
        cells = [share(e) if name == "says nothing" else in_full(e) for name, e in found.items()]
        yield [title_of(method), source_title(seeds[0].source), *cells]


def _marked(index: ResultsIndex) -> Iterator[list[str]]:
    for method in index.among(METHODS):
        seeds = index.of(method)
        if seeds:
            cells = [in_full(_frequency(seeds, category), 2) for category in Category]
        else:
            cells = [NOT_RUN] * len(Category)
        yield [title_of(method), *cells]


def _frequency(seeds: Sequence[Result], category: Category) -> Estimate:
    """Per 1,000 tokens."""
    found = [_marker(result, category) for result in seeds]
    if len(found) == 1 and found[0] is not None:
        return found[0].per_1000_tokens
    return over_seeds(seeds, lambda result: _value(_marker(result, category)))


def _value(marker: Marker | None) -> float | None:
    return marker.per_1000_tokens.value if marker else None


def _marker(result: Result, category: Category) -> Marker | None:
    found = benchmark_of(result).categories
    return next((marker for marker in found if marker.category == category), None)


def _caption(index: ResultsIndex, methods: Sequence[str]) -> Caption:
    said = []
    for method in methods:
        if result := index.first(method):
            found = source_of(result)
            said.append(
                f"{title_of(method)}: mean {number(Estimate(found.mean))}, median "
                f"{number(Estimate(found.median))}"
            )
    return Caption(
        "Rollouts by confidence",
        "First seed of each method; right rollouts upwards, wrong rollouts downwards. Every panel "
        "has its own scale.",
        f"Distribution of confidence. {'; '.join(said)}.",
    )
