"""The primary comparison's verdicts: from the results alone, by the rules of `design`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from studies.paper.primary.design import (
    COMPARED,
    ENDPOINTS,
    LEVEL,
    METHODS,
    POSTHOC,
    REFERENCE,
    SEEDS,
    Endpoint,
)
from studies.paper.primary.inference import Crossed, crossed, holm, resamples, smallest_effect
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
        difference: method minus GRPO.
        p: of this hypothesis alone; `adjusted`: after Holm over all primary hypotheses.
        detectable: smallest difference that ten seeds find with power 0.8 at Bonferroni's level.
    """

    endpoint: Endpoint
    method: str
    difference: Crossed
    p: float
    adjusted: float
    detectable: float

    @property
    def text(self) -> str:
        """What is shown at the family-wise level."""
        if self.adjusted >= LEVEL:
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
    own = {name: [results[f"{name}-{seed}"].measured for seed in seeds] for name in METHODS}
    every = [measured for runs in own.values() for measured in runs]
    on_P = np.array([not is_out_of_domain(name) for name in every[0].problems])
    common_P = mixed_in_all([measured.right(on_P) for measured in every])
    n_problems = int(on_P.sum())
    drawn_TP = resamples(n_problems, number, seed=0)
    weight_TP = np.vstack([np.ones((1, n_problems)), drawn_TP])
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
            difference_ST = one - other
            found[method, endpoint] = crossed(difference_ST[:, 0], difference_ST[:, 1:], n_problems)
    return judged(found, len(seeds))


def n_common(results: Mapping[str, PrimaryResult], seeds: Sequence[int]) -> int:
    """Problems of the trained families that are mixed in every run of these seeds."""
    every = [results[f"{name}-{seed}"].measured for name in METHODS for seed in seeds]
    on_P = np.array([not is_out_of_domain(name) for name in every[0].problems])
    return int(mixed_in_all([measured.right(on_P) for measured in every]).sum())


def judged(found: Mapping[tuple[str, Endpoint], Crossed], n_seeds: int) -> list[Verdict]:
    """Verdicts on differences by method and endpoint, together under Holm's correction."""
    p_values = {
        f"{method} {endpoint.name}": (
            one.p_differs() if endpoint.margin is None else one.p_above(-endpoint.margin)
        )
        for (method, endpoint), one in found.items()
    }
    adjusted = holm(p_values)
    return [
        Verdict(
            endpoint,
            method,
            one,
            p_values[f"{method} {endpoint.name}"],
            adjusted[f"{method} {endpoint.name}"],
            smallest_effect(
                one.seed_error * sqrt(n_seeds),
                one.problem_error,
                len(SEEDS),
                LEVEL / len(p_values),
            ),
        )
        for (method, endpoint), one in found.items()
    ]


def endpoint_figures(
    measured: Measured,
    probe: str,
    on_P: NDArray[np.bool_],
    common_P: NDArray[np.bool_],
    weight_TP: Figures,
) -> dict[str, Figures]:
    """Every endpoint of one run, on the problems and on their resamples, by name."""
    right_PK, confidence_PK = measured.right(on_P), measured.confidence(probe, on_P)
    tokens_P = np.array(measured.tokens_P)[on_P]
    return {
        "resolution": resolution(confidence_PK, right_PK, weight_TP),
        "AUROC within a question": within_question(confidence_PK, right_PK, common_P, weight_TP),
        "tokens at equal certified risk": mean_over(tokens_P, weight_TP),
        "accuracy": mean_over(right_PK.mean(1), weight_TP),
    }
