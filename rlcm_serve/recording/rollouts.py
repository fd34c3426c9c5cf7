"""Recorded rollouts as files and the database hold them, and as calibration reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Self

import msgspec

from calibration import ExitReason
from calibration.traces import table
from rlcm_serve.answers.grading.verdicts import Verdicts
from rlcm_serve.core import TokenIds

Key = tuple[str, int]
"""A problem's id and the number of the rollout."""


class FullBudgetRollout(msgspec.Struct, frozen=True):
    """What every recorded rollout has; subclasses add what their use needs."""

    problem_id: str
    rollout: int

    @property
    def key(self) -> Key:
        """Identifies the rollout among all rollouts of a run."""
        return self.problem_id, self.rollout

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer at any reading; true where nobody looks for one."""
        return True

    def to_json(self) -> dict[str, Any]:
        """Plain values; NaN stays a float, which `json` writes as `NaN`."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """The rollout that `to_json` described.

        Raises:
            msgspec.ValidationError: a field is missing or has a wrong type.
        """
        return msgspec.convert(plain, cls)


class RecordedReading(msgspec.Struct, frozen=True):
    """One reading and the graded answers at it.

    Attributes:
        tokens: reasoning tokens before the reading.
        confidence: in [0, 1]; NaN without a probe.
        answers: K forced answers, or the model's own answer at its natural end.
        correct: whether each answer equals the reference.
        answer_tokens: generated for the first answer.
    """

    tokens: int
    confidence: float
    answers: tuple[str | None, ...]
    correct: tuple[bool, ...]
    answer_tokens: int

    @property
    def share_correct(self) -> float:
        """Y_b of RLCM §3.2."""
        return sum(self.correct) / len(self.correct)


class RecordedRollout(FullBudgetRollout, frozen=True, omit_defaults=True):
    """One rollout at full budget, for calibration and probe training.

    Attributes:
        group: template or source that the problem shares with others.
        prompt, tokens: token ids; empty where they are not kept.
        natural: the model ended its reasoning before the budget did.
        readings: in order; the last one is the final reading.
        familiarity: p-value of the question's familiarity; None if it was not read.
        kind: the kind of question; None if none was declared.
    """

    group: str | None
    prompt: TokenIds
    tokens: TokenIds
    natural: bool
    readings: tuple[RecordedReading, ...]
    familiarity: float | None = None
    kind: str | None = None

    @property
    def has_answer(self) -> bool:
        """Whether there is an answer at any reading."""
        return any(answer is not None for one in self.readings for answer in one.answers)


def to_rollouts(
    recordings: Iterable[RecordedRollout], grader: Verdicts, unlabelled: Collection[str] = ()
) -> list[table.Rollout]:
    """Recordings as calibration's traces: the first answer of each reading, grouped into classes.

    Classes are numbered within a problem, over all its rollouts and readings.

    Args:
        recordings: of all problems.
        grader: groups the answers.
        unlabelled: ids of problems without a label, whose verdicts are left out.
    """
    by_problem: dict[str, list[RecordedRollout]] = {}
    for recording in recordings:
        by_problem.setdefault(recording.problem_id, []).append(recording)
    rollouts = []
    for recorded in by_problem.values():
        answers = [reading.answers[0] for r in recorded for reading in r.readings]
        classes = iter(grader.classes(answers))
        labelled = recorded[0].problem_id not in unlabelled
        rollouts += [_rollout(recording, classes, labelled) for recording in recorded]
    return rollouts


def _rollout(recording: RecordedRollout, classes: Iterator[int], labelled: bool) -> table.Rollout:
    readings = [
        table.Reading(
            tokens=reading.tokens,
            confidence=reading.confidence,
            answer=reading.answers[0],
            answer_class=next(classes),
            answer_tokens=reading.answer_tokens,
            correct=reading.correct[0] if labelled else None,
        )
        for reading in recording.readings
    ]
    return table.Rollout(
        problem_id=recording.problem_id,
        rollout=recording.rollout,
        end_reason=ExitReason.NATURAL if recording.natural else ExitReason.BUDGET,
        checkpoints=tuple(readings[:-1]),
        final=readings[-1],
        group=recording.group,
        familiarity=recording.familiarity,
        kind=recording.kind,
    )
