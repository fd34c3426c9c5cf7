"""Ablations of the margin, and the effect of weights (RLCM §3.1, §4.5, App. C)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibration.metrics.bootstrap import estimate_metrics
from calibration.metrics.estimates import Estimate
from calibration.report_kit.content import Caption, Plate
from calibration.report_kit.panels import legend, panels, percent_axis
from calibration.report_kit.style import Style
from calibration.report_kit.tables import ranked
from calibration.report_kit.wording import number, number_in_full
from rlcm_serve.evaluation.report.metrics import COLUMNS, HIGHER_IS_BETTER
from studies.paper.report.markdown import NOT_RUN, Block, difference, in_full, table
from studies.paper.report.results_index import (
    ResultsIndex,
    fewest_rollouts,
    one_or_mean,
    scored_alike,
    title_of,
)
from studies.paper.report.seeds import mean_difference, mean_slope
from studies.paper.report.style import STYLES
from studies.paper.result import Result
from studies.paper.runs import ABLATED, BRIER_WEIGHTS, REGULARISERS, STRENGTHS
from training.rl.rewards.methods import METHODS

_HEAD = ["accuracy ↑", "PCE ↓", "ECE ↓", "Δ accuracy", "Δ PCE", "Δ ECE"]
_SLOPES = {"accuracy": "accuracy", "ece": "ECE", "auroc": "AUROC"}
_BESIDE = {"GRPO": "grpo", "RLCM": "rlcm"}
"""Shown beside RLCR's weights."""

Metrics = Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class _Side:
    """Runs side by side, on the same seeds and the same number of rollouts per problem.

    Attributes:
        runs: by name, for each seed that all existing ones have; empty if there is none.
        metrics: of the existing runs, means over seeds.
        n_rollouts: rollouts per problem.
        seeds: of every run.
    """

    runs: Mapping[str, tuple[Result, ...]]
    metrics: Mapping[str, Metrics]
    n_rollouts: int
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, runs: Mapping[str, tuple[Result, ...]]) -> Self:
        there = {title: own for title, own in runs.items() if own}
        every = [{result.seed for result in own} for own in there.values()]
        seeds = tuple(sorted(set.intersection(*every))) if every else ()
        kept = {
            title: tuple(result for result in own if result.seed in seeds)
            for title, own in runs.items()
        }
        n_rollouts = fewest_rollouts(result for own in kept.values() for result in own)
        metrics = {title: _over_seeds(own, n_rollouts) for title, own in kept.items() if own}
        return cls(kept, metrics, n_rollouts, seeds)

    def said(self, to: str) -> str:
        """The text that explains the table."""
        compared = f", on the first {self.n_rollouts} rollouts of each problem in every run"
        if len(self.seeds) > 1:
            seeds = ", ".join(map(str, self.seeds))
            return (
                f"Means over {len(self.seeds)} seeds ({seeds}){compared}; below them the lowest "
                f"and the highest seed. Δ is the difference to {to}, paired by seed and problem, "
                "with a 95% interval that covers other seeds and problems; bold if it excludes 0. "
                "Best in bold, second best underlined."
            )
        if not self.seeds:
            return "No seed has been run with each of them, so nothing is compared yet."
        return (
            f"One seed each ({', '.join(map(str, self.seeds))}){compared}, with 95% intervals over "
            f"problems. Δ is the difference to {to}, paired on the same problems; bold "
            "if its interval excludes 0. Best in bold, second best underlined."
        )

    def rows(self, to: str) -> Iterator[list[str]]:
        """Every run's figures, and the differences from the run `to`."""
        ranks = {
            name: dict(
                zip(
                    self.metrics,
                    ranked([m[name] for m in self.metrics.values()], name in HIGHER_IS_BETTER),
                    strict=True,
                )
            )
            for name in COLUMNS
        }
        for title, own_runs in self.runs.items():
            if not own_runs:
                yield [title, *[NOT_RUN] * len(COLUMNS), *[""] * len(COLUMNS)]
                continue
            found = self.metrics[title]
            own = [in_full(found[name], rank=ranks[name][title]) for name in COLUMNS]
            yield [title, *own, *self._differences(to, own_runs)]

    def _differences(self, to: str, own: Sequence[Result]) -> list[str]:
        """The differences of one side's runs from the run `to`, on the same rollouts."""
        theirs = self.runs[to]
        if not theirs or theirs[0].name == own[0].name:
            return [""] * len(COLUMNS)
        pairs = list(zip(theirs, own, strict=True))
        found = mean_difference(pairs, COLUMNS, self.n_rollouts)
        return [difference(found[name]) for name in COLUMNS]


def ablation(index: ResultsIndex) -> Block:
    """Where calibration is supervised, and how."""
    side = _Side.of({title_of(method): index.of(method) for method in (*ABLATED, "rlcm")})
    is_posthoc = any(result.probe for own in side.runs.values() for result in own)
    judge = (
        "a probe made after the training, for all in the same way" if is_posthoc else "that probe"
    )
    intro = (
        "All four rewards read a probe that is trained jointly with the policy, with λ = 0.1; the "
        f"figures are those of {judge}. {side.said('RLCM')} The counterpart in the paper is "
        "Table 2, whose figures are the joint probe's."
    )
    return Block("ablation", (intro, table(["method", *_HEAD], side.rows("RLCM"))))


def margin_weight(index: ResultsIndex) -> Block:
    """The block on λ of RLCM."""
    side = _Side.of({f"{strength:g}": index.of("rlcm", strength) for strength in STRENGTHS})
    intro = f"{side.said('λ = 0.1')} The counterpart in the paper is the table of App. C.2."
    after = [_slopes(side)] if len(side.seeds) > 1 and all(side.runs.values()) else []
    return Block("lambda", (intro, table(["λ", *_HEAD], side.rows("0.1")), *after))


def _slopes(side: _Side) -> str:
    """What the runs of all λ say together."""
    runs = {float(title): own for title, own in side.runs.items()}
    found = mean_slope(runs, ("accuracy", "ece", "auroc"), side.n_rollouts)
    told = ", ".join(f"{_SLOPES[name]} {number_in_full(own)}" for name, own in found.items())
    return (
        f"A straight line through all {sum(map(len, runs.values()))} runs changes by this much per "
        f"unit of λ, with 95% intervals that cover other seeds and problems: {told}."
    )


def brier_weight(index: ResultsIndex) -> Block:
    """The block on RLCR's Brier weight, which trades accuracy against ECE."""
    runs = {f"{weight:g}": index.of("rlcr", weight) for weight in BRIER_WEIGHTS}
    side = _Side.of(runs | {title: index.of(method) for title, method in _BESIDE.items()})
    intro = (
        "RLCR's reward is correctness plus format plus this weight times the Brier term of the "
        "confidence it writes. The weights are ours, because the paper's figure prints none. "
        f"{side.said('weight 1')} The counterpart in the paper is the figure of §3.1, whose weight "
        "0 is GRPO. Here weight 0 still asks for a confidence, and GRPO has its own line."
    )
    rows = table(["weight", *_HEAD], side.rows("1"))
    if not side.metrics:
        return Block("brier", (intro, rows))
    plate = Plate("brier", partial(draw_trade, side.metrics), _caption(side.metrics))
    return Block("brier", (intro, plate, rows))


def regulariser(index: ResultsIndex) -> Block:
    """The block on the weight of C²GSPG's regulariser."""
    side = _Side.of({f"{weight:g}": index.of("c2gspg", weight) for weight in REGULARISERS})
    own = f"{METHODS['c2gspg'].strength:g}"
    intro = (
        "The paper gives no weight for C²GSPG's regulariser, so two are compared; the other tables "
        f"use {own}. {side.said(f'weight {own}')}"
    )
    return Block("regulariser", (intro, table(["weight", *_HEAD], side.rows(own))))


def draw_trade(metrics: Mapping[str, Metrics]) -> Figure:
    """Accuracy against ECE: RLCR's weights as one line, GRPO and RLCM as points."""
    figure, (panel,) = panels(1, 1, 3.3)
    weights = {title: found for title, found in metrics.items() if title not in _BESIDE}
    if weights:
        draw_points(panel, list(weights.values()), STYLES["rlcr"], "RLCR, by Brier weight")
    for title, found in weights.items():
        x, y = found["ece"].value, found["accuracy"].value
        if x is not None and y is not None:
            panel.annotate(title, (x, y), (6, -13), textcoords="offset points", fontsize=8.5)
    for title, method in _BESIDE.items():
        if title in metrics:
            draw_points(panel, [metrics[title]], STYLES[method], title)
    panel.set_xlim(left=0)
    panel.set_xlabel("ECE (to the left is better)")
    panel.set_ylabel("accuracy")
    percent_axis(panel, "y", 5)
    legend(figure)
    return figure


def draw_points(panel: Axes, found: Sequence[Metrics], style: Style, label: str) -> None:
    """A point per run, or mean over runs, with its intervals; joined in their order."""
    points = []
    for metrics in found:
        x, y = metrics["ece"], metrics["accuracy"]
        if x.value is None or y.value is None:
            continue
        points.append((x.value, y.value))
        if x.low is not None and x.high is not None:
            panel.hlines(y.value, x.low, x.high, color=style.color, alpha=0.45)
        if y.low is not None and y.high is not None:
            panel.vlines(x.value, y.low, y.high, color=style.color, alpha=0.45)
    panel.plot([x for x, _ in points], [y for _, y in points], label=label, **style.line())


def _over_seeds(results: Sequence[Result], n_rollouts: int) -> Metrics:
    """One seed's metrics with their intervals, or means over seeds with their range."""
    every = [estimate_metrics(scored_alike(own, n_rollouts), COLUMNS) for own in results]
    return {name: one_or_mean([found[name] for found in every]) for name in COLUMNS}


def _caption(metrics: Mapping[str, Metrics]) -> Caption:
    said = "; ".join(
        f"{title}: accuracy {number(found['accuracy'])}, ECE {number(found['ece'])}"
        for title, found in metrics.items()
    )
    return Caption(
        "Accuracy against calibration error",
        "Up and to the left is better. The numbers beside RLCR's points are its Brier weight; "
        "bars are the intervals of the table.",
        f"Accuracy against ECE. {said}.",
    )
