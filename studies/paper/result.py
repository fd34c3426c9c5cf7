"""The result of a run: one JSON file, the source of every table and figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from calibration.metrics.scores import ScoredRollouts
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.measuring.measures import Marker, RunMeasures
from studies.paper.result_files import read_folder, write_result

COMMAND = "python -m studies.paper run"
"""Writes the results."""

CURVES = (
    "accuracy",
    "reward",
    "completions/mean_length",
    "completions/clipped_ratio",
    "budgets/both_sides",
    "probe/bce",
    "probe/target",
    "probe/confidence",
    "confidence/stated",
    "confidence/sequence",
    "grad_norm",
    "sampling/sampling_logp_difference/max",
    "step_time",
    "time/overhead",
)
"""The stored training curves; the others stay in `training.json`."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage's command, the commit of its code, and its seconds over all sessions."""

    command: str
    commit: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The final answers of all rollouts of the evaluation, a list per problem.

    Attributes:
        problems: ids.
        parts: family and level of each problem, as `FAMILY, level N`.
        confidence: from the run's own source, rounded to 5 digits.
        right: 1 or 0.
        answer_class: equal answers to a problem share a number; -1 means no answer.
    """

    problems: tuple[str, ...]
    parts: tuple[str, ...]
    confidence: tuple[tuple[float, ...], ...]
    right: tuple[tuple[int, ...], ...]
    answer_class: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, scored: ScoredRollouts, problems: Sequence[str], parts: Mapping[str, str]) -> Self:
        """The rollouts of a finished evaluation."""
        rows = [np.flatnonzero(scored.problem_R == at) for at in range(len(problems))]
        confidence_R = np.round(scored.confidence_R, 5)
        return cls(
            problems=tuple(problems),
            parts=tuple(parts.get(name, "") for name in problems),
            confidence=tuple(tuple(confidence_R[own].tolist()) for own in rows),
            right=tuple(tuple(scored.correct_R[own].astype(int).tolist()) for own in rows),
            answer_class=tuple(tuple(scored.answer_class_R[own].tolist()) for own in rows),
        )

    def scored(self, only: str | tuple[str, ...] = "") -> ScoredRollouts:
        """Scored rollouts of all problems, or of those whose part begins with (one of) `only`."""
        kept = [at for at, part in enumerate(self.parts) if part.startswith(only)]
        counts = [len(self.right[at]) for at in kept]
        return ScoredRollouts(
            problem_R=np.repeat(np.arange(len(kept)), counts),
            correct_R=_flat(self.right, kept).astype(bool),
            confidence_R=_flat(self.confidence, kept),
            answer_class_R=_flat(self.answer_class, kept).astype(np.int64),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        name, method, title, strength, seed: as in `PaperRun`.
        source: the run's own source of confidence.
        training: the stage; None for the base model.
        probe: the post-hoc probe's fit; None if the probe was trained jointly or there is none.
        evaluation: the stage `rlcm eval`.
        settings: of training; empty for the base model.
        curves: by name, an entry per step.
        measures: of the evaluation, only for the run's own source.
        rollouts: the rollouts that were measured.
        out_of_domain: those on problems of kinds that training does not see; None without any.
        phrases: markers of doubt that occur, by phrase; older files have none.
        design: digest of the study's settings and problems; "" where a study has none.
    """

    name: str
    method: str
    title: str
    strength: float
    seed: int
    source: str
    training: Stage | None
    probe: Stage | None
    evaluation: Stage
    settings: dict[str, Any]
    curves: dict[str, tuple[float, ...]]
    measures: RunMeasures
    rollouts: Rollouts
    out_of_domain: Rollouts | None = None
    phrases: tuple[Marker, ...] = ()
    design: str = ""

    def write(self, folder: Path) -> Path:
        """Writes `NAME.json` atomically."""
        return write_result(self, folder)


def read_results(folder: Path) -> dict[str, Result]:
    """The results in a folder, by name.

    Raises:
        RequestRefused: the folder has no results, or a file is not a result.
    """
    found = read_folder(folder, Result, COMMAND)
    if not found:
        raise RequestRefused(
            "results", f"{folder} holds no result: run `{COMMAND}` or `python -m studies.paper all`"
        )
    return found


def _flat(lists: Sequence[Iterable[float]], kept: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.array([value for at in kept for value in lists[at]])
