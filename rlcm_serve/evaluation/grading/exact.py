"""Answers that are right if they are written as the reference, but for case and white space."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.base import Grader, Pair, classes_by_key
from rlcm_serve.recording.concurrency import OnProgress, ignore_progress


class ExactGrader(Grader):
    """The same text once case, runs of white space and Unicode's compatible forms are folded."""

    name = "exact 1"

    def check_reference(self, reference: str) -> None:
        """Any text but an empty one.

        Raises:
            RequestRefused: it is empty.
        """
        if not reference.strip():
            raise RequestRefused("data", f"the reference answer {reference!r} is empty")

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """As `Grader.grade`."""
        on_progress(len(pairs), len(pairs))
        return [folded(answer) == folded(reference) for answer, reference in pairs]

    def classes(self, answers: Sequence[str | None]) -> list[int]:
        """As `Grader.classes`."""
        return classes_by_key([None if answer is None else folded(answer) for answer in answers])


def folded(text: str) -> str:
    """The text without what `ExactGrader` looks past."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
