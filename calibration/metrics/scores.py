"""Graded rollouts: the input of all metrics, votes and intervals."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.policy.voting import NO_ANSWER


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRollouts:
    """Rollouts (R) of problems (P): answer, confidence, and whether the answer is right.

    Rollouts may be in any order. Every problem has at least one; the numbers may differ.

    Attributes:
        problem_R: index of its problem, 0 .. P - 1.
        correct_R: whether its answer is right; false without an answer.
        confidence_R: its confidence, in [0, 1].
        answer_class_R: number of the group of equal answers within the problem; NO_ANSWER if no
            answer could be read.
        unit_P: exchangeable unit of each problem, its template or source, numbered from 0 without
            gaps; None if every problem is a unit of its own.

    Raises:
        CalibrationError: there are no rollouts, lengths or types do not fit, a problem or unit has
            no rollouts, a confidence is outside [0, 1], or a rollout without an answer is graded
            right.
    """

    problem_R: NDArray[np.integer[Any]]
    correct_R: NDArray[np.bool_]
    confidence_R: NDArray[np.float64]
    answer_class_R: NDArray[np.integer[Any]]
    unit_P: NDArray[np.integer[Any]] | None = None

    def __post_init__(self) -> None:
        self._check_columns()
        _check_numbering("problem", self.problem_R, "rollout")
        odd_R = self.confidence_R[~((self.confidence_R >= 0) & (self.confidence_R <= 1))]
        if odd_R.size:
            raise CalibrationError(f"confidence is {odd_R[0]}: give numbers from 0 to 1")
        if self.answer_class_R.min() < NO_ANSWER:
            raise CalibrationError(
                f"answer class is {self.answer_class_R.min()}: give a class from 0, or {NO_ANSWER} "
                "for no answer"
            )
        if (self.correct_R & (self.answer_class_R == NO_ANSWER)).any():
            raise CalibrationError(
                "a rollout without an answer is graded right: grade it false, or give its answer"
            )
        if self.unit_P is not None:
            n_problems = int(self.problem_R.max()) + 1
            if self.unit_P.shape != (n_problems,):
                raise CalibrationError(
                    f"{self.unit_P.size} units for {n_problems} problems: give one per problem"
                )
            _check_numbering("unit", self.unit_P, "problem")

    @property
    def n_rollouts(self) -> int:
        """Number of rollouts, of all problems together."""
        return self.problem_R.size

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return int(self.problem_R.max()) + 1

    @property
    def n_units(self) -> int:
        """Number of exchangeable units, which a resample draws."""
        return self.n_problems if self.unit_P is None else int(self.unit_P.max()) + 1

    @property
    def rollouts_P(self) -> NDArray[np.intp]:
        """Number of rollouts of each problem."""
        return np.bincount(self.problem_R)

    @property
    def right_P(self) -> NDArray[np.intp]:
        """Number of right rollouts of each problem."""
        return np.bincount(self.problem_R[self.correct_R], minlength=self.n_problems)

    @property
    def units_P(self) -> NDArray[np.integer[Any]]:
        """Exchangeable unit of each problem; the problem itself if `unit_P` is None."""
        return np.arange(self.n_problems) if self.unit_P is None else self.unit_P

    @property
    def unit_R(self) -> NDArray[np.integer[Any]]:
        """Exchangeable unit of each rollout."""
        return self.problem_R if self.unit_P is None else self.unit_P[self.problem_R]

    def select(self, keep_P: NDArray[np.bool_]) -> Self:
        """The rollouts of some problems; the problems are renumbered in their order.

        Raises:
            CalibrationError: no problem is kept, or there is not one flag per problem.
        """
        if keep_P.shape != (self.n_problems,) or not keep_P.any():
            raise CalibrationError(
                f"{int(keep_P.sum())} of {keep_P.size} problems kept, out of {self.n_problems}: "
                "give one flag per problem, and keep at least one"
            )
        keep_R = keep_P[self.problem_R]
        renumbered_P = np.cumsum(keep_P) - 1
        unit_P = (
            None if self.unit_P is None else np.unique(self.unit_P[keep_P], return_inverse=True)[1]
        )
        return replace(
            self,
            problem_R=renumbered_P[self.problem_R[keep_R]],
            correct_R=self.correct_R[keep_R],
            confidence_R=self.confidence_R[keep_R],
            answer_class_R=self.answer_class_R[keep_R],
            unit_P=unit_P,
        )

    def _check_columns(self) -> None:
        kinds = {"problem_R": "iu", "correct_R": "b", "confidence_R": "f", "answer_class_R": "iu"}
        columns = {name: getattr(self, name) for name in kinds}
        if len({column.shape for column in columns.values()}) > 1 or self.problem_R.ndim != 1:
            shapes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
            raise CalibrationError(f"shapes differ: {shapes}: give one entry per rollout in each")
        if self.problem_R.size == 0:
            raise CalibrationError("no rollouts: a metric needs at least one")
        for name, column in columns.items():
            if column.dtype.kind not in kinds[name]:
                expected = {"iu": "whole numbers", "b": "booleans", "f": "floats"}[kinds[name]]
                raise CalibrationError(f"{name} holds {column.dtype}: give {expected}")


def _check_numbering(name: str, index: NDArray[np.integer[Any]], member: str) -> None:
    """Checks that all numbers from 0 to the largest occur."""
    if index.min() < 0:
        raise CalibrationError(f"{name} is {index.min()}: number the {name}s from 0")
    n_distinct, largest = int((np.bincount(index) > 0).sum()), int(index.max())
    if n_distinct <= largest:
        missing = int(np.flatnonzero(np.bincount(index) == 0)[0])
        raise CalibrationError(
            f"{name} {missing} of 0 .. {largest} has no {member}: number only those that occur"
        )
