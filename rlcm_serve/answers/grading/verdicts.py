"""What serving and recording need of a grader: which answers are equal, and which are right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rlcm_serve.answers.grading.base import KeyedGrader


class Verdicts(ABC):
    """Compares the answers of one question. May be used from any thread.

    Attributes:
        name: with a version, as in a certificate's fingerprint.
    """

    name: str

    def check_reference(self, reference: str) -> None:  # noqa: B027  most accept every text
        """Returns if answers can be compared with this reference.

        Raises:
            RequestRefused: they cannot; the message says why.
        """

    @abstractmethod
    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """The class of each answer, numbered by first appearance; NO_ANSWER where there is none."""

    @abstractmethod
    async def classes_async(self, answers: Sequence[str | None]) -> list[int]:
        """As `classes`, without blocking the event loop."""

    @abstractmethod
    def equal(self, answer: str, other: str) -> bool:
        """Whether an answer equals another, such as the reference."""

    @abstractmethod
    async def equal_async(self, answer: str, other: str) -> bool:
        """As `equal`, without blocking the event loop."""


class KeyedVerdicts(Verdicts):
    """The verdicts of a grader that needs no worker."""

    def __init__(self, grader: KeyedGrader) -> None:
        self.name = grader.name
        self._grader = grader

    def check_reference(self, reference: str) -> None:
        """As the grader's."""
        self._grader.check_reference(reference)

    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """Answers with the same key share a class."""
        (classes,) = self._grader.classes_of_all([answers])
        return classes

    async def classes_async(self, answers: Sequence[str | None]) -> list[int]:
        """As `classes`."""
        return self.classes(answers)

    def equal(self, answer: str, other: str) -> bool:
        """Whether the answer is right; the other one is the reference."""
        return self._grader.is_right(answer, other)

    async def equal_async(self, answer: str, other: str) -> bool:
        """As `equal`."""
        return self.equal(answer, other)
