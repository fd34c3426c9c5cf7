"""Risk targets, the realised risk, and its cost in tokens (RLCM §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.panels import draw_target, legend, panels, percent_axis, rows_of_panels
from calibration.report_kit.wording import number, number_in_full, rate, share
from rlcm_serve.evaluation.measuring.measures import Controlled
from rlcm_serve.evaluation.report.risk_figures import MOST_ADDED
from studies.paper.report.accuracy import METHODS
from studies.paper.report.markdown import NOT_RUN, Block, table
from studies.paper.report.results_index import ResultsIndex, benchmark_of, over_seeds, title_of
from studies.paper.report.style import STYLES
from studies.paper.result import Result

ALPHAS = (0.05, 0.1, 0.15, 0.2, 0.3)
RISKS = {
    "error": "wrong of all questions",
    "selective": "wrong of the answers given",
    "regret": "right answers that are lost",
}

Points = list[tuple[float, float]]
"""Targets, each with a figure there."""
_Figure = Callable[[Controlled], float | None]


def control(index: ResultsIndex) -> Block:
    """Tables of both risks, a figure of the targets, and a figure of thresholds without targets."""
    tested = sorted({found.n_problems for found in _fitted(index.any)})
    intro = (
        "Exit policies are fitted on half of the problems (Learn-then-Test, δ = 0.1, each α by "
        f"itself) and measured on the other {' or '.join(map(str, tested)) or 'no'} problems, one "
        "rollout at a time. For each method and α: tokens as a share of the full budget's, the "
        "realised risk, and the share of questions answered. Several seeds: their mean, with the "
        "lowest and the highest seed in brackets. One seed: the brackets hold the 95% interval of "
        "the realised risk. Tokens and shares have no intervals. The counterpart in the paper is "
        "the figure of §5.1."
    )
    tables = []
    for risk in fitted_risks(index):
        if risk in _certified(index):
            head = [f"risk `{risk}`<br>{RISKS[risk]}", *(f"α = {alpha:g}" for alpha in ALPHAS)]
            tables.append(table(head, _rows(index, risk)))
        else:
            tables.append(
                f"Risk `{risk}`, {RISKS[risk]}: at none of these α is a policy of any method "
                "certified."
            )
    if not _certified(index):
        return Block("control", (intro, *tables))
    target = Plate("control", partial(draw_targets, index), _of_targets(index))
    frontier = Plate("frontier", partial(draw_frontier, index), _of_frontier(index))
    return Block("control", (intro, *tables, target, frontier))


def fitted_risks(index: ResultsIndex) -> list[str]:
    """The risks for which the study fits exits."""
    found = {one.risk for result in index.results.values() for one in _fitted(result)}
    return [risk for risk in RISKS if risk in found]


def _certified(index: ResultsIndex) -> list[str]:
    """The risks for which a policy of some run is certified at one of `ALPHAS`."""
    seeds = [result for method in index.among(METHODS) for result in index.of(method)]
    return [
        risk
        for risk in RISKS
        if any(at_target(result, risk, alpha) for result in seeds for alpha in ALPHAS)
    ]


def at_target(result: Result, risk: str, alpha: float) -> Controlled | None:
    """Measures at a target; None if it was not tested or no policy is certified for it."""
    found = (f for f in _fitted(result) if (f.risk, f.alpha) == (risk, alpha))
    level = next(found, None)
    return None if level is None or level.reason is not None else level


def draw_targets(index: ResultsIndex) -> Figure:
    """Realised risk, and tokens, against the target: a row per risk, a line per method."""
    shown, methods = _certified(index), index.among(METHODS)
    figure, rows = rows_of_panels(len(shown), 2, 2.3)
    for (realised, tokens), risk in zip(rows, shown, strict=True):
        risks = {method: _points(index.of(method), risk, _realised) for method in methods}
        _draw_ideal(realised, list(risks.values()))
        for method, points in risks.items():
            _draw_points(realised, points, method)
            _draw_points(tokens, _points(index.of(method), risk, _tokens), method)
        realised.set_title(f"realised risk: {RISKS[risk]}")
        tokens.set_title("tokens per question")
        percent_axis(realised, "y", 5)
        tokens.set_ylim(bottom=0)
        for panel in (realised, tokens):
            panel.set_xlim(0, 1.05 * ALPHAS[-1])
            percent_axis(panel, "x", 6)
    figure.supxlabel("target α")
    legend(figure)
    return figure


def draw_frontier(index: ResultsIndex) -> Figure:
    """Tokens against error along the thresholds of each method's first seed."""
    figure, (panel,) = panels(1, 1, 3.3)
    for method in index.among(METHODS):
        result = index.first(method)
        for frontier in benchmark_of(result).frontiers if result else ():
            panel.plot(
                frontier.tokens,
                frontier.error,
                label=title_of(method),
                markevery=max(1, len(frontier.tokens) // 10),
                **STYLES[method].line(),
            )
    _leave_out_far_errors(
        panel, [r for method in index.among(METHODS) if (r := index.first(method))]
    )
    panel.set_xlabel("tokens, share of the method's own full budget")
    panel.set_ylabel("share answered wrong")
    percent_axis(panel, "x", 6)
    percent_axis(panel, "y", 5)
    legend(figure)
    return figure


def _fitted(result: Result) -> Iterator[Controlled]:
    return (f for f in benchmark_of(result).controlled if not f.origin.certificate)


def _rows(index: ResultsIndex, risk: str) -> Iterator[list[str]]:
    for method in index.among(METHODS):
        seeds = index.of(method)
        cells = [_cell(seeds, risk, alpha) if seeds else NOT_RUN for alpha in ALPHAS]
        yield [title_of(method), *cells]


def _cell(seeds: Sequence[Result], risk: str, alpha: float) -> str:
    certified = [result for result in seeds if at_target(result, risk, alpha) is not None]
    if not certified:
        return "not certified"
    parts = [
        f"tokens {share(_mean(certified, risk, alpha, _share))}",
        f"risk {number_in_full(_risk(certified, risk, alpha))}",
        f"answered {share(_mean(certified, risk, alpha, _answered))}",
    ]
    if len(certified) < len(seeds):
        parts.append(f"certified for {len(certified)} of {len(seeds)} seeds")
    return "<br>".join(parts)


def _risk(results: Sequence[Result], risk: str, alpha: float) -> Estimate:
    """The realised risk; a single seed has its own interval."""
    if len(results) == 1 and (found := at_target(results[0], risk, alpha)) and found.realised:
        return found.realised
    return _mean(results, risk, alpha, _realised)


def _mean(results: Sequence[Result], risk: str, alpha: float, of: _Figure) -> Estimate:
    return over_seeds(
        results,
        lambda result: of(found) if (found := at_target(result, risk, alpha)) else None,
    )


def _realised(found: Controlled) -> float | None:
    return found.realised.value if found.realised else None


def _tokens(found: Controlled) -> float | None:
    return found.tokens


def _share(found: Controlled) -> float | None:
    return found.tokens_share


def _answered(found: Controlled) -> float | None:
    return found.answered


def _draw_ideal(panel: Axes, every: Sequence[Points]) -> None:
    """Draws the diagonal: a risk should stay below it and close to it."""
    top = 1.05 * max(ALPHAS[-1], *(value for points in every for _, value in points))
    draw_target(panel, 1.05 * ALPHAS[-1], top)
    panel.set_ylim(0, top)


def _points(seeds: Sequence[Result], risk: str, of: _Figure) -> Points:
    """The targets that some seed certifies, and a figure's mean over those seeds."""
    points = []
    for alpha in ALPHAS:
        certified = [result for result in seeds if at_target(result, risk, alpha) is not None]
        value = _mean(certified, risk, alpha, of).value
        if value is not None:
            points.append((alpha, value))
    return points


def _draw_points(panel: Axes, points: Points, method: str) -> None:
    if points:
        alphas, values = zip(*points, strict=True)
        panel.plot(alphas, values, label=title_of(method), clip_on=False, **STYLES[method].line())


def _leave_out_far_errors(panel: Axes, results: Sequence[Result]) -> None:
    """Leaves out errors far above the full budget's, where stopping is never useful."""
    errors = [frontier.error for r in results for frontier in benchmark_of(r).frontiers]
    if errors:
        top = max(error[0] for error in errors) + MOST_ADDED
        low = min(map(min, errors))
        panel.set_ylim(max(0.0, low - 0.02), min(max(map(max, errors)) + 0.02, top))


def _of_targets(index: ResultsIndex) -> Caption:
    alpha, risk = ALPHAS[-2], _certified(index)[-1]
    said = [
        f"{title_of(method)} {rate(alpha)} {risk}: {_cell(seeds, risk, alpha)}"
        for method in index.among(METHODS)
        if (seeds := index.of(method))
    ]
    return Caption(
        "Target against realised risk, and against tokens",
        "Mean over the seeds for which the target is certified; without such a seed there is no "
        "point. Left: closer to the line from below is better. Right: lower is better.",
        f"Risk and tokens by target. {'; '.join(said).replace('<br>', ', ')}.",
    )


def _of_frontier(index: ResultsIndex) -> Caption:
    said = []
    for method in index.among(METHODS):
        if result := index.first(method):
            for found in benchmark_of(result).frontiers:
                said.append(
                    f"{title_of(method)} errs in {number(Estimate(found.error[0]))} of the "
                    f"questions at the full budget and in {number(Estimate(found.error[-1]))} at "
                    f"{share(Estimate(found.tokens[-1]))} of its tokens"
                )
    return Caption(
        "Tokens against errors along all thresholds",
        "Every question is answered; exits at one threshold after another; first seed. Nothing is "
        "promised here: the lines show how well the confidence selects moments to stop at.",
        f"Tokens against error. {'; '.join(said)}.",
    )
