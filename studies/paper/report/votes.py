"""One answer from several rollouts (RLCM §5.2, App. F)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from calibration.metrics.estimates import Estimate
from calibration.metrics.vote_curves import VoteCurves, vote_curves
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.palette import INK
from calibration.report_kit.panels import draw_curve, legend, panels, percent_axis
from calibration.report_kit.tables import ranked
from calibration.report_kit.wording import number
from studies.paper.report.accuracy import METHODS
from studies.paper.report.markdown import NOT_RUN, Block, difference, in_full, table
from studies.paper.report.results_index import ResultsIndex, over_seeds, source_of, title_of
from studies.paper.report.seeds import mean_over_seeds
from studies.paper.report.style import STYLES
from studies.paper.result import Result

_FIELDS = {
    "pass_at_1": "Pass@1",
    "majority": "majority",
    "confidence": "weighted by confidence",
    "oracle": "oracle",
}


def votes(index: ResultsIndex) -> Block:
    """A table for votes with all rollouts, and a figure against the number of rollouts."""
    intro = (
        f"{len(index.any.rollouts.problems)} problems, n = {index.most_rollouts} rollouts each, "
        "from the seeds that have that many. Below the value: with one seed (0) the 95% interval "
        "by resampling problems, with several the lowest and the highest seed. The gain is the "
        "weighted vote minus the majority of the same rollouts, with a paired 95% interval over "
        "problems, with several seeds over seeds and problems; bold if it excludes 0. Votes are at "
        "the full budget. The counterparts in the paper are Table 3 and the figure of §5.2."
    )
    head = ["method", *_FIELDS.values(), "gain of weights"]
    there = any(_with_votes(index, method) for method in index.among(METHODS))
    plates = (Plate("votes", partial(draw_votes, index), _caption(index)),) if there else ()
    return Block("votes", (intro, table(head, _rows(index)), *plates))


def weights_gain(results: Sequence[Result]) -> NDArray[np.float64]:
    """The gain of confidence weights over a plain majority of all rollouts, by seed and problem.

    A tie counts as the share of the tied answers that are right. Shape (S, P).
    """
    return np.array([_gain(result) for result in results])


def votes_with(n: int, result: Result) -> bool:
    """Whether the result has votes of `n` rollouts."""
    return n in source_of(result).votes.n


def draw_votes(index: ResultsIndex) -> Figure:
    """Accuracy of weighted votes, and the weights' gain, against the number of rollouts."""
    figure, (weighted, gain) = panels(2, 2, 2.7)
    gain.axhline(0, color=INK, linewidth=1)
    for method in index.among(METHODS):
        seeds, style, title = _with_votes(index, method), STYLES[method], title_of(method)
        if not seeds:
            continue
        numbers = common_numbers(seeds)
        shares = [_summary(seeds, "confidence", n) for n in numbers]
        draw_curve(weighted, numbers, shares, style, title, band=False)
        gains = [over_seeds(seeds, partial(_gain_at, n=n)) for n in numbers]
        draw_curve(gain, numbers, gains, style, title, band=False)
    weighted.set_title("right, weighted by confidence")
    gain.set_title("gain over the majority, percentage points")
    percent_axis(weighted, "y", 5)
    for panel in (weighted, gain):
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    figure.supxlabel("rollouts that vote, n")
    legend(figure)
    return figure


def common_numbers(results: Sequence[Result]) -> list[int]:
    """The numbers of rollouts at which all results have votes."""
    return sorted(set.intersection(*(set(source_of(r).votes.n) for r in results)))


def _rows(index: ResultsIndex) -> Iterator[list[str]]:
    every = [_with_votes(index, method) for method in index.among(METHODS)]
    columns = []
    for field in _FIELDS:
        found = [_summary(seeds, field, index.most_rollouts) for seeds in every]
        columns.append(
            [in_full(e, rank=rank) for e, rank in zip(found, ranked(found, True), strict=True)]
        )
    for row, (method, seeds) in enumerate(zip(index.among(METHODS), every, strict=True)):
        if seeds:
            gain = difference(mean_over_seeds(weights_gain(seeds)))
            yield [title_of(method), *(column[row] for column in columns), gain]
        else:
            yield [title_of(method), *[NOT_RUN] * len(_FIELDS), ""]


def _with_votes(index: ResultsIndex, method: str) -> tuple[Result, ...]:
    return tuple(filter(partial(votes_with, index.most_rollouts), index.of(method)))


def _summary(seeds: Sequence[Result], field: str, n: int) -> Estimate:
    if len(seeds) == 1:
        return _at(seeds[0], field, n)
    return over_seeds(seeds, lambda result: _at(result, field, n).value)


def _at(result: Result, field: str, n: int) -> Estimate:
    found: VoteCurves = source_of(result).votes
    estimates: tuple[Estimate, ...] = getattr(found, field)
    return estimates[found.n.index(n)]


def _gain_at(result: Result, n: int) -> float | None:
    """The gain of weights at `n` rollouts, in percentage points."""
    weighted, plain = (_at(result, field, n).value for field in ("confidence", "majority"))
    return None if weighted is None or plain is None else 100 * (weighted - plain)


def _gain(result: Result) -> NDArray[np.float64]:
    """Credit of the weighted vote minus that of the majority, by problem."""
    scored = result.rollouts.scored()
    problems = np.arange(scored.n_problems)
    gains = []
    for problem in problems:
        own = scored.select(problems == problem)
        found = vote_curves(own, [own.n_rollouts], resamples=1, threads=1)
        gains.append((found.confidence[0].value or 0.0) - (found.majority[0].value or 0.0))
    return np.array(gains)


def _caption(index: ResultsIndex) -> Caption:
    said = []
    for method in index.among(METHODS):
        if seeds := _with_votes(index, method):
            shares = [_summary(seeds, field, index.most_rollouts) for field in _FIELDS]
            said.append(
                f"{title_of(method)}: "
                + ", ".join(
                    f"{title} {number(share)}"
                    for title, share in zip(_FIELDS.values(), shares, strict=True)
                )
            )
    return Caption(
        "Votes by number of rollouts",
        "Mean over seeds. Right: the gain of the weights over a plain majority of the same "
        "rollouts; a gain below one problem's share means nothing.",
        f"Votes with n = {index.most_rollouts} rollouts. {'; '.join(said)}.",
    )
