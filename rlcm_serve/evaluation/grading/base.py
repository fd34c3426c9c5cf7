"""What a grader promises: it reads answers, judges them against references, and never hangs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.grader import close_boxed, own_answer
from rlcm_serve.engine.prompts import FORCED_ANSWER
from rlcm_serve.recording.concurrency import OnProgress, ignore_progress

Pair = tuple[str, str]
"""An answer, and the reference it is held against."""


class Grader(ABC):
    r"""Says which answers are right and which are the same; answers are in `\boxed{}` by default.

    A context manager: worker processes are started when they are first needed and killed at the
    end. One thread may use it at a time.

    Attributes:
        name: with its version; whatever changes a verdict changes it, for verdicts are kept by it.
        opening: what opens a forced answer once the thinking is closed.
        answer_tokens: the budget an answer needs, if a few hundred tokens are too few.
    """

    name: str
    opening: str = FORCED_ANSWER
    answer_tokens: int | None = None

    def find(self, text: str) -> str | None:
        """The answer in what the model wrote after its thinking; None if there is none.

        As the service reads it: `answers.own_answer`.
        """
        return own_answer(text)

    def close(self, continuation: str) -> str | None:
        """The answer in a forced continuation of `opening`; None if it was cut off."""
        return close_boxed(continuation)

    @abstractmethod
    def check_reference(self, reference: str) -> None:
        """Returns if answers can be held against it.

        Raises:
            RequestRefused: they cannot, and why.
        """

    @abstractmethod
    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """Whether each answer is right. What cannot be decided in time is wrong.

        Args:
            pairs: may repeat.
            on_progress: told how many are decided, of how many; from this thread.
        """

    @abstractmethod
    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """The class of each answer to one problem: equal ones share it; NO_ANSWER for None.

        Numbered by first appearance.
        """

    def classes_of_all(
        self, problems: Sequence[Sequence[str | None]], on_progress: OnProgress = ignore_progress
    ) -> list[list[int]]:
        """As `classes`, for one list of answers after another."""
        found = []
        for answers in problems:
            found.append(self.classes(answers))
            on_progress(len(found), len(problems))
        return found

    def stop(self) -> None:  # noqa: B027  most graders start nothing
        """Ends what was started; may be called twice, and the grader may be used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def classes_by_key(keys: Sequence[str | None]) -> list[int]:
    """Classes of answers that are the same if their keys are."""
    number: dict[str, int] = {}
    return [NO_ANSWER if key is None else number.setdefault(key, len(number)) for key in keys]
