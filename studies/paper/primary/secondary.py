"""The primary comparison's secondary figures: values and differences with intervals, no verdicts.

The intervals cover other seeds and other problems, as those of the verdicts do, and are not
corrected for their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.estimates import Estimate
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.weighted_metrics import WeightedMetrics
from studies.paper.primary.design import METHODS, TOKENS, WITHIN
from studies.paper.primary.inference import Crossed, resamples
from studies.paper.primary.measures import Figures, Measured, mixed_in_all
from studies.paper.primary.problems import has_conflict, is_out_of_domain
from studies.paper.primary.result import PrimaryResult
from studies.paper.primary.verdicts import RESAMPLES, aligned, difference, endpoint_figures

FIGURES = {
    "accuracy": "accuracy",
    "ECE": "ece",
    "Brier score": "brier",
    "AUROC": "auroc",
    "resolution": "resolution",
    WITHIN.name: WITHIN.name,
    "tokens under certified exits": TOKENS.name,
}
"""Titles of the figures, and their names where they are computed. ECE has ten bins of equal width.
"""

BETTER_LOW = ("ECE", "Brier score", "tokens under certified exits")


@dataclass(frozen=True, slots=True)
class Panel:
    """Some of the test problems.

    Attributes:
        title: in tables and figures.
        holds: whether the problem of an id is one of them.
    """

    title: str
    holds: Callable[[str], bool]


TRAINED = Panel("trained kinds", lambda name: not is_out_of_domain(name))
OUT_OF_DOMAIN = Panel("out of domain", is_out_of_domain)
CONFLICTS = Panel(
    "trained kinds with a conflict",
    lambda name: has_conflict(name) and not is_out_of_domain(name),
)
PANELS = (TRAINED, CONFLICTS, OUT_OF_DOMAIN)


@dataclass(frozen=True, slots=True)
class Reading:
    """A method's policies, and the probe that reads them."""

    method: str
    probe: str


@dataclass(frozen=True, slots=True)
class PanelFigures:
    """The figures of all runs on one panel.

    Attributes:
        n_problems: of the panel.
        n_common: of these, mixed in every run.
        figure_ST: by reading and title: of each seed, on the problems as they are (first column)
            and on their resamples.
    """

    n_problems: int
    n_common: int
    figure_ST: Mapping[Reading, Mapping[str, Figures]]

    def value(self, reading: Reading, title: str) -> Estimate:
        """The mean over seeds with its 95% interval; undefined if any seed's figure is."""
        return _estimate(difference(self.figure_ST[reading][title], self._counted(title)))

    def difference(self, one: Reading, other: Reading, title: str) -> Estimate:
        """The first reading's figure minus the second's, paired by seed and problem."""
        return _estimate(self.crossed(one, other, title))

    def crossed(self, one: Reading, other: Reading, title: str) -> Crossed | None:
        """As `difference`, with its errors; None if any seed's figure is undefined."""
        figure_ST = self.figure_ST[one][title] - self.figure_ST[other][title]
        return difference(figure_ST, self._counted(title))

    def _counted(self, title: str) -> int:
        """The number of problems that a figure is about."""
        return self.n_common if title == WITHIN.name else self.n_problems


def panel_figures(
    results: Mapping[str, PrimaryResult],
    seeds: Sequence[int],
    panel: Panel,
    number: int = RESAMPLES,
    methods: Sequence[str] = METHODS,
) -> PanelFigures:
    """All figures on a panel, of every method and of every probe that reads its policies.

    Args:
        results: by the run's name; every method has every seed.
        seeds: at least two.
        panel: the problems.
        number: of resamples of the problems.
        methods: the compared ones.
    """
    runs = aligned(results, seeds, methods)
    every = [measured for own in runs.values() for measured in own]
    on_P = np.array([panel.holds(name) for name in every[0].problems])
    common_P = mixed_in_all([measured.right(on_P) for measured in every])
    n_problems = int(on_P.sum())
    weight_TP = np.vstack([np.ones((1, n_problems)), resamples(n_problems, number, seed=0)])
    figure_ST = {}
    for method, own in runs.items():
        for probe in own[0].confidence_PK:
            each = [_figures(measured, probe, on_P, common_P, weight_TP) for measured in own]
            figure_ST[Reading(method, probe)] = {
                title: np.vstack([figures[name] for figures in each])
                for title, name in FIGURES.items()
            }
    return PanelFigures(n_problems, int(common_P.sum()), figure_ST)


def _estimate(found: Crossed | None) -> Estimate:
    return Estimate(None) if found is None else Estimate(found.mean, *found.interval())


def _figures(
    measured: Measured,
    probe: str,
    on_P: NDArray[np.bool_],
    common_P: NDArray[np.bool_],
    weight_TP: Figures,
) -> dict[str, Figures]:
    """Every figure of one run, on the problems and on their resamples, by name."""
    found = endpoint_figures(measured, probe, on_P, common_P, weight_TP)
    scored = _scored(measured.confidence(probe, on_P), measured.right(on_P))
    metrics = WeightedMetrics(scored, ("ece", "brier", "auroc"))
    found |= metrics.figures(weight_TP.astype(np.int64))
    found["ece"] = np.abs(found["ece"]).sum(1)
    return found


def _scored(confidence_PK: NDArray[np.float64], right_PK: NDArray[np.float64]) -> ScoredRollouts:
    """The rollouts as the metrics take them; answers are alike if they are alike right."""
    n_problems, n_rollouts = right_PK.shape
    return ScoredRollouts(
        problem_R=np.repeat(np.arange(n_problems), n_rollouts),
        correct_R=right_PK.ravel() > 0,
        confidence_R=confidence_PK.ravel(),
        answer_class_R=(right_PK.ravel() > 0).astype(np.int64),
    )
