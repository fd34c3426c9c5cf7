"""The contract of graders: they grade answers and group equal ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.extraction import BOXED, Extractor
from rlcm_serve.events import OnProgress, ignore_progress

Pair = tuple[str, str]
"""An answer and its reference."""


class Grader(ABC):
    """Decides which answers are right and which are equal.

    A context manager: worker processes start when they are first needed and are killed at the end.
    One thread at a time may use it.

    Attributes:
        name: with a version. Verdicts are stored by name, so every change of verdicts changes it.
        extractor: finds and forces the answers that it grades.
    """

    name: str
    extractor: Extractor = BOXED

    @abstractmethod
    def check_reference(self, reference: str) -> None:
        """Returns if answers can be compared with this reference.

        Raises:
            RequestRefused: they cannot; the message says why.
        """

    @abstractmethod
    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """Whether each answer is right. An answer that cannot be decided in time is wrong.

        Args:
            pairs: may repeat.
            on_progress: called in this thread.
        """

    @abstractmethod
    def classes_of_all(
        self, problems: Sequence[Sequence[str | None]], on_progress: OnProgress = ignore_progress
    ) -> list[list[int]]:
        """The class of each answer to each problem, numbered by first appearance.

        Equal answers to a problem share a class; None has NO_ANSWER.
        """

    def stop(self) -> None:  # noqa: B027  most graders start nothing
        """Ends worker processes. May be called twice; the grader can be used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class KeyedGrader(Grader):
    """A grader that calls answers equal if they have the same key, and grades one by one."""

    @abstractmethod
    def key(self, answer: str) -> str:
        """Equal for equal answers."""

    @abstractmethod
    def is_right(self, answer: str, reference: str) -> bool:
        """Whether an answer is right."""

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """As `Grader.grade`."""
        on_progress(len(pairs), len(pairs))
        return [self.is_right(answer, reference) for answer, reference in pairs]

    def classes_of_all(
        self, problems: Sequence[Sequence[str | None]], on_progress: OnProgress = ignore_progress
    ) -> list[list[int]]:
        """As `Grader.classes_of_all`, by `key`."""
        on_progress(len(problems), len(problems))
        return [self._classes(answers) for answers in problems]

    def _classes(self, answers: Sequence[str | None]) -> list[int]:
        numbers: dict[str, int] = {}
        return [
            NO_ANSWER if answer is None else numbers.setdefault(self.key(answer), len(numbers))
            for answer in answers
        ]
