"""Training curves, and the time that a run takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.panels import legend, panels, percent_axis
from calibration.report_kit.wording import UNDEFINED, number
from studies.paper.report.markdown import NOT_RUN, Block, in_full, table
from studies.paper.report.results_index import ResultsIndex, over_seeds, title_of
from studies.paper.report.style import STYLES
from studies.paper.result import Result
from studies.paper.runs import ABLATED, AUTHORS, COMPARED

METHODS = (*COMPARED, *ABLATED, *AUTHORS)
_CURVES = {
    "accuracy": "rollouts that are right",
    "completions/mean_length": "tokens of a rollout",
    "probe/bce": "cross-entropy of the probe",
    "budgets/both_sides": "rollouts with B+ and B−",
}
_AVERAGED = 5
"""Number of steps averaged into a point of a curve."""
_ENDS = 10
"""Number of steps at either end that the table averages."""


def training(index: ResultsIndex) -> Block:
    """Curves of all methods, and a table of times and figures."""
    intro = (
        "Training rollouts; every step uses other problems. These figures are not held out and "
        f"have no intervals. `first` and `last` are means over the first and the last {_ENDS} "
        "steps. The factor is the time of a step divided by the time of the same step without "
        "forced answers and probe. Mean over seeds, with the lowest and the highest below. The "
        "log-probability column has the largest difference between engine and trainer over all "
        "seeds; it shows whether the engine sampled from the trained policy. `–`: the method has "
        "no such figure. The runs shared two cores, so seconds are only roughly comparable."
    )
    there = any(index.of(method) for method in index.among(METHODS))
    plates = (Plate("training", partial(draw_curves, index), _caption(index)),) if there else ()
    head = ["method", *_COLUMNS, "log-probability, largest difference"]
    return Block("training", (intro, *plates, table(head, _rows(index))))


def draw_curves(index: ResultsIndex) -> Figure:
    """A panel per curve and a line per method, over its seeds."""
    figure, axes = panels(len(_CURVES), 2, 2.1)
    for panel, (name, title) in zip(axes, _CURVES.items(), strict=True):
        for method in index.among(METHODS):
            _draw(panel, index.of(method), method, name)
        panel.set_title(title)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if name in ("accuracy", "budgets/both_sides"):
            percent_axis(panel, "y", 5)
    figure.supxlabel(f"step (mean of the last {_AVERAGED})")
    legend(figure)
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
    panel.plot(steps, averaged_S, label=title_of(method), markevery=every, **STYLES[method].line())


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


def _rows(index: ResultsIndex) -> Iterator[list[str]]:
    for method in index.among(METHODS):
        seeds = index.of(method)
        if seeds:
            cells = [in_full(over_seeds(seeds, of), digits) for of, digits in _COLUMNS.values()]
        else:
            cells = [NOT_RUN] * len(_COLUMNS)
        yield [title_of(method), *cells, _largest_difference(seeds)]


def _largest_difference(seeds: Sequence[Result]) -> str:
    """The largest difference of engine's and trainer's log-probabilities, all steps and seeds."""
    steps = [at for r in seeds for at in r.curves.get("sampling/sampling_logp_difference/max", ())]
    return f"{max(steps):.0e}" if steps else UNDEFINED if seeds else NOT_RUN


def _caption(index: ResultsIndex) -> Caption:
    of, digits = _COLUMNS["right, last"]
    said = [
        f"{title_of(method)} {number(found, digits)}"
        for method in index.among(METHODS)
        if (found := over_seeds(index.of(method), of)) != Estimate(None)
    ]
    return Caption(
        "Curves of training",
        "Mean over seeds. The two lower panels have only methods that force answers. The "
        "cross-entropy is the probe's before its step. A rollout has a margin only if it has "
        "budgets on both sides of 1/2.",
        f"Right in the last {_ENDS} steps: {', '.join(said)}.",
    )
