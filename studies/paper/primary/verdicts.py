"""The primary comparison's verdicts: from the results alone, by the rules of `design`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rlcm_serve.errors import RequestRefused
from studies.paper.primary.design import (
    ACCURACY,
    COMPARED,
    ENDPOINTS,
    LEAST_COMMON,
    LEVEL,
    METHODS,
    POSTHOC,
    REFERENCE,
    SEEDS,
    TOKENS,
    WITHIN,
    Endpoint,
)
from studies.paper.primary.inference import (
    Crossed,
    crossed,
    holm,
    power_within,
    resamples,
    smallest_effect,
)
from studies.paper.primary.measures import (
    Figures,
    Measured,
    mean_over,
    mixed_in_all,
    resolution,
    within_question,
)
from studies.paper.primary.problems import is_out_of_domain
from studies.paper.primary.result import PrimaryResult

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """One primary hypothesis: a method against GRPO at one endpoint.

    Attributes:
        difference: method minus GRPO; None if it is not defined.
        p: of this hypothesis alone; `adjusted`: after Holm over all primary hypotheses.
        detectable: smallest difference that ten seeds find with power 0.8 at Bonferroni's level.
            With a margin: the power with which they show it, if there is no difference. Where an
            accuracy has to be kept, that of the difference alone.
    """

    endpoint: Endpoint
    method: str
    difference: Crossed | None
    p: float
    adjusted: float
    detectable: float | None

    @property
    def text(self) -> str:
        """What is shown at the family-wise level."""
        if self.difference is None or self.adjusted >= LEVEL:
            return "not shown"
        if self.endpoint.margin is not None:
            return f"not worse by {self.endpoint.margin:g} or more"
        is_better = (self.difference.mean < 0) == self.endpoint.is_better_low
        return "better" if is_better else "worse"


def whole_seeds(results: Mapping[str, PrimaryResult], seeds: Sequence[int]) -> list[int]:
    """The seeds for which every method has a result."""
    return [seed for seed in seeds if all(f"{name}-{seed}" in results for name in METHODS)]


def verdicts(
    results: Mapping[str, PrimaryResult],
    seeds: Sequence[int],
    probe: str = POSTHOC,
    number: int = RESAMPLES,
) -> list[Verdict]:
    """All primary hypotheses, on the problems of the families that were trained on.

    Args:
        seeds: at least two, with results of every method.
        probe: whose confidences are compared.
        number: of resamples of the problems.
    """
    own = aligned(results, seeds, METHODS)
    every = [measured for runs in own.values() for measured in runs]
    on_P = np.array([not is_out_of_domain(name) for name in every[0].problems])
    common_P = mixed_in_all([measured.right(on_P) for measured in every])
    drawn_TP = resamples(int(on_P.sum()), number, seed=0)
    weight_TP = np.vstack([np.ones((1, len(common_P))), drawn_TP])
    figures = {
        name: [endpoint_figures(measured, probe, on_P, common_P, weight_TP) for measured in runs]
        for name, runs in own.items()
    }
    found = {}
    for method in COMPARED:
        for endpoint in ENDPOINTS:
            one, other = (
                np.array([run[endpoint.name] for run in figures[name]])
                for name in (method, REFERENCE)
            )
            counted = common_P if endpoint == WITHIN else np.ones_like(common_P)
            found[method, endpoint] = difference(one - other, int(counted.sum()))
    return judged(found, len(seeds))


def aligned(
    results: Mapping[str, PrimaryResult], seeds: Sequence[int], methods: Sequence[str]
) -> dict[str, list[Measured]]:
    """What was measured of each method's seeds, on the same problems in the same order.

    Raises:
        RequestRefused: a run is of another design than the first one, or its problems are not the
            same or in another order.
    """
    runs = {method: [results[f"{method}-{seed}"] for seed in seeds] for method in methods}
    first = runs[methods[0]][0]
    for one in (run for own in runs.values() for run in own):
        if one.design != first.design:
            raise RequestRefused(
                "results",
                f"{one.name} was made under another design than {first.name}: delete the older "
                "result, then its run is made again",
            )
        if one.measured.problems != first.measured.problems:
            raise RequestRefused(
                "results",
                f"the problems of {one.name} are not those of {first.name}, in their order: delete "
                "one of the results, then its run is made again",
            )
    return {method: [run.measured for run in own] for method, own in runs.items()}


def difference(figure_ST: Figures, n_problems: int) -> Crossed | None:
    """The mean difference with its errors; None if a seed's figure is not defined."""
    if not np.isfinite(figure_ST).all():
        return None
    return crossed(figure_ST[:, 0], figure_ST[:, 1:], n_problems)


def n_common(results: Mapping[str, PrimaryResult], seeds: Sequence[int]) -> int:
    """Problems of the trained families that are mixed in every run of these seeds."""
    every = [measured for own in aligned(results, seeds, METHODS).values() for measured in own]
    on_P = np.array([not is_out_of_domain(name) for name in every[0].problems])
    return int(mixed_in_all([measured.right(on_P) for measured in every]).sum())


def judged(found: Mapping[tuple[str, Endpoint], Crossed | None], n_seeds: int) -> list[Verdict]:
    """Verdicts on differences by method and endpoint, together under Holm's correction."""
    p_values = {key: _p_value(found, *key) for key in found}
    adjusted = holm({f"{method} {endpoint.name}": p for (method, endpoint), p in p_values.items()})
    return [
        Verdict(
            endpoint,
            method,
            one,
            p_values[method, endpoint],
            adjusted[f"{method} {endpoint.name}"],
            None if one is None else _detectable(endpoint, one, n_seeds, LEVEL / len(found)),
        )
        for (method, endpoint), one in found.items()
    ]


def _p_value(
    found: Mapping[tuple[str, Endpoint], Crossed | None], method: str, endpoint: Endpoint
) -> float:
    """Of one hypothesis. An undefined difference shows nothing: its p-value is 1.

    Where an accuracy has to be kept, both nulls must be rejected, so the larger p-value counts.
    """
    one = found[method, endpoint]
    if one is None:
        return 1.0
    if endpoint.margin is not None:
        return one.p_above(-endpoint.margin)
    if not endpoint.keeps_accuracy:
        return one.p_differs()
    return max(one.p_differs(), _p_value(found, method, ACCURACY))


def _detectable(endpoint: Endpoint, one: Crossed, n_seeds: int, alpha: float) -> float:
    parts = (one.seed_error * sqrt(n_seeds), one.problem_error, len(SEEDS), alpha)
    if endpoint.margin is not None:
        return power_within(endpoint.margin, *parts)
    return smallest_effect(*parts)


def endpoint_figures(
    measured: Measured,
    probe: str,
    on_P: NDArray[np.bool_],
    common_P: NDArray[np.bool_],
    weight_TP: Figures,
) -> dict[str, Figures]:
    """Every endpoint of one run, on the problems and on their resamples, by name.

    The AUROC within a question is NaN if too few problems are common to all runs, and tokens are
    NaN for probes whose exits nobody certified.
    """
    right_PK, confidence_PK = measured.right(on_P), measured.confidence(probe, on_P)
    tokens_T = within_T = np.full(len(weight_TP), np.nan)
    if probe == POSTHOC:
        tokens_T = mean_over(np.array(measured.tokens_P)[on_P], weight_TP)
    if common_P.sum() >= LEAST_COMMON:
        within_T = within_question(confidence_PK, right_PK, common_P, weight_TP)
    return {
        "resolution": resolution(confidence_PK, right_PK, weight_TP),
        WITHIN.name: within_T,
        TOKENS.name: tokens_T,
        "accuracy": mean_over(right_PK.mean(1), weight_TP),
    }
