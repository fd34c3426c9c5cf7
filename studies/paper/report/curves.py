"""How training went, step by step, and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.report.labels import Caption
from rlcm_serve.evaluation.report.panels import legend, panels, percent_axis
from rlcm_serve.evaluation.report.section import Plate
from rlcm_serve.evaluation.report.wording import UNDEFINED, number
from studies.paper.report.markdown import NOT_RUN, Block, in_full, table
from studies.paper.report.results_index import Shelf, over_seeds, title_of
from studies.paper.report.style import LOOKS
from studies.paper.result import Result
from studies.paper.runs import ABLATED, COMPARED

METHODS = (*COMPARED, *ABLATED)
_CURVES = {
    "accuracy": "rollouts that are right",
    "completions/mean_length": "tokens of a rollout",
    "probe/bce": "cross-entropy of the probe",
    "budgets/both_sides": "rollouts with B+ and B−",
}
_AVERAGED = 5
"""Steps that a point of a curve is the mean of."""
_ENDS = 10
"""Steps at either end that the table averages over."""


def training(shelf: Shelf) -> Block:
    """Curves of all methods, and a table of what a run took."""
    intro = (
        "Training rollouts, each step on other problems: these are no held-out figures, and have "
        "no intervals. `first` and `last` are means over that many steps "
        f"({_ENDS}) at either end. The factor is a step's time over that of the same step without "
        "forced answers and probe. Mean over seeds, with the lowest and the highest below; of the "
        "difference between the log-probabilities of engine and trainer it is the largest of all, "
        "which says whether the engine sampled from the policy that was trained. `–` stands where "
        "a method has no such figure. The runs shared two cores, so seconds compare loosely."
    )
    there = any(shelf.of(method) for method in METHODS)
    plates = (Plate("training", partial(draw_curves, shelf), _caption(shelf)),) if there else ()
    head = ["method", *_COLUMNS, "log-probability, largest difference"]
    return Block("training", (intro, *plates, table(head, _rows(shelf))))


def draw_curves(shelf: Shelf) -> Figure:
    """A panel per curve, a line per method, over its seeds."""
    figure, axes = panels(len(_CURVES), 2, 2.1)
    for panel, (name, title) in zip(axes, _CURVES.items(), strict=True):
        for method in METHODS:
            _draw(panel, shelf.of(method), method, name)
        panel.set_title(title)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if name in ("accuracy", "budgets/both_sides"):
            percent_axis(panel, "y", 5)
    figure.supxlabel(f"step (mean of the last {_AVERAGED})", fontsize=9)
    legend(figure, axes)
    return figure


def _draw(panel: Axes, seeds: Sequence[Result], method: str, name: str) -> None:
    found = [result.curves[name] for result in seeds if name in result.curves]
    if not found:
        return
    n_steps = min(map(len, found))
    mean_S = np.mean([curve[:n_steps] for curve in found], axis=0)
    width = min(_AVERAGED, n_steps)
    averaged_S = np.convolve(mean_S, np.ones(width) / width, mode="valid")
    steps = np.arange(width, n_steps + 1)
    every = max(1, len(steps) // 6)
    panel.plot(steps, averaged_S, label=title_of(method), markevery=every, **LOOKS[method].line())


def _mean_at(name: str, end: slice) -> Callable[[Result], float | None]:
    def of(result: Result) -> float | None:
        values = result.curves.get(name, ())[end]
        return float(np.mean(values)) if values else None

    return of


_FIRST, _LAST, _ALL = slice(None, _ENDS), slice(-_ENDS, None), slice(None)
_COLUMNS: dict[str, tuple[Callable[[Result], float | None], int]] = {
    "seconds": (lambda result: result.training.seconds if result.training else None, 0),
    "factor": (_mean_at("time/overhead", _ALL), 2),
    "right, first": (_mean_at("accuracy", _FIRST), 3),
    "right, last": (_mean_at("accuracy", _LAST), 3),
    "probe, first": (_mean_at("probe/bce", _FIRST), 3),
    "probe, last": (_mean_at("probe/bce", _LAST), 3),
    "both sides, first": (_mean_at("budgets/both_sides", _FIRST), 3),
    "both sides, last": (_mean_at("budgets/both_sides", _LAST), 3),
}


def _rows(shelf: Shelf) -> Iterator[list[str]]:
    for method in METHODS:
        seeds = shelf.of(method)
        if seeds:
            cells = [in_full(over_seeds(seeds, of), digits) for of, digits in _COLUMNS.values()]
        else:
            cells = [NOT_RUN] * len(_COLUMNS)
        yield [title_of(method), *cells, _largest_difference(seeds)]


def _largest_difference(seeds: Sequence[Result]) -> str:
    """Between the log-probabilities of engine and trainer, over all steps and seeds."""
    steps = [at for r in seeds for at in r.curves.get("sampling/sampling_logp_difference/max", ())]
    return f"{max(steps):.0e}" if steps else UNDEFINED if seeds else NOT_RUN


def _caption(shelf: Shelf) -> Caption:
    of, digits = _COLUMNS["right, last"]
    said = [
        f"{title_of(method)} {number(found, digits)}"
        for method in METHODS
        if (found := over_seeds(shelf.of(method), of)) != Estimate(None)
    ]
    return Caption(
        "Curves of training",
        "Mean over seeds. The two lower panels have only methods that force answers: the "
        "cross-entropy is the probe's before its step, and without budgets on both sides of 1/2 "
        "the margin of a rollout compares nothing.",
        f"Right in the last {_ENDS} steps: {', '.join(said)}.",
    )
