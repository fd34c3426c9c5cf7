"""Fits a familiarity reading: the score on one half of the problems, the ranks on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.traces.traces import unit_of
from rlcm_serve.familiarity.cutoff import fewest_ranking_problems, flagged_ranks
from rlcm_serve.familiarity.familiarity import Familiarity, FamiliarityConfig
from rlcm_serve.familiarity.score import Floats, StateScore
from training.errors import TrainingRefused

FEWEST_REFERENCE = 1000


@dataclass(frozen=True, slots=True)
class FamiliarityFit:
    """Settings of one fit.

    Attributes:
        epsilon: largest rate of flagged questions among questions like the problems.
        confidence: with which the cutoff keeps that rate.
        seed: of the split.

    Raises:
        TrainingRefused: a share is not between 0 and 1.
    """

    epsilon: float = 0.005
    confidence: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epsilon", "confidence"):
            if not 0 < (value := getattr(self, name)) < 1:
                raise TrainingRefused(f"{name} is {value}: give a share between 0 and 1")


def split_problems(
    problem_ids: Sequence[str], groups: Sequence[str | None], fit: FamiliarityFit
) -> tuple[list[int], list[int]]:
    """Indices of the reference problems and of the ranking problems.

    Half of the units (groups, and problems without one) go to either; a hash of the unit and the
    seed decides. Of a group only one problem ranks, because the ranks need independent problems.

    Raises:
        TrainingRefused: there are too few problems for either.
    """
    units = [unit_of(id_, group) for id_, group in zip(problem_ids, groups, strict=True)]
    order = sorted(set(units), key=lambda unit: _hash(f"{fit.seed} {unit}"))
    for_reference = set(order[: len(order) // 2])
    reference = [i for i, unit in enumerate(units) if unit in for_reference]
    first = {unit: i for i, unit in reversed(list(enumerate(units))) if unit not in for_reference}
    ranking = sorted(first.values())
    needed = fewest_ranking_problems(fit.epsilon, fit.confidence)
    if len(reference) < FEWEST_REFERENCE or len(ranking) < needed:
        raise TrainingRefused(
            f"{len(problem_ids)} problems give {len(reference)} for the score and {len(ranking)} "
            f"independent ones for the ranks, but these need {FEWEST_REFERENCE} and {needed} "
            f"(epsilon {fit.epsilon:g}, confidence {fit.confidence:g}): give more problems, or a "
            "larger epsilon"
        )
    return reference, ranking


def fit_familiarity(
    states_NH: Floats,
    problem_ids: Sequence[str],
    groups: Sequence[str | None],
    fit: FamiliarityFit = FamiliarityFit(),
) -> Familiarity:
    """Fits a reading on the prompts' last states, one per problem.

    Raises:
        TrainingRefused: there are too few problems, or a state is not finite.
    """
    if not np.isfinite(states_NH).all():
        raise TrainingRefused("a state of a prompt is not finite: check the model's weights")
    reference, ranking = split_problems(problem_ids, groups, fit)
    score = StateScore.fit(states_NH[reference])
    n = len(ranking)
    config = FamiliarityConfig(
        hidden_size=states_NH.shape[1],
        reference=len(reference),
        ranking=n,
        epsilon=fit.epsilon,
        confidence=fit.confidence,
        cutoff=flagged_ranks(n, fit.epsilon, fit.confidence) / (n + 1),
    )
    return Familiarity(config, score, np.sort(score.of(states_NH[ranking])))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
