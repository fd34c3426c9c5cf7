"""Mathematical answers, compared by value with several workers of the service's grader."""

from __future__ import annotations

import re
from collections.abc import Sequence

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.aggregation.graders import Comparison, Graders
from rlcm_serve.answers.canonical.reading import equal_if_canonical
from rlcm_serve.answers.grader import GRADER
from rlcm_serve.answers.grading.base import Grader, Pair
from rlcm_serve.errors import RequestRefused
from rlcm_serve.events import OnProgress, ignore_progress

_GROUPING_LIMIT = 3600.0
"""Seconds for the classes of one problem; long, because they must not depend on the load."""
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SOLUTION_END = re.compile(r"^#### .*", re.MULTILINE)
"""How a solution of GSM8K ends."""


class MathGrader(Grader):
    """The verdicts of `answers.grader.AnswerGrader`, which certificates are fitted with.

    Plain numbers need no worker. Worker processes compare all other answers; a comparison longer
    than `time_limit` is stopped and counts as wrong. docs/studies/grading.md lists known errors.

    Args:
        workers: maximum number of processes; by default one per core, at most two.
        time_limit: seconds for one comparison.
    """

    name = GRADER

    def __init__(self, workers: int | None = None, time_limit: float = 5.0) -> None:
        self._workers, self._time_limit = workers, time_limit
        self._graders: Graders | None = None

    def check_reference(self, reference: str) -> None:
        """Accepts any text with balanced braces; math-verify reads other text as a name.

        Raises:
            RequestRefused: it is empty, a whole solution as GSM8K has them, or its braces are not
                balanced.
        """
        if not reference.strip(" \t\r\n$.,;"):
            raise RequestRefused("data", f"the reference answer {reference!r} is empty")
        if found := _SOLUTION_END.search(reference):
            raise RequestRefused(
                "data",
                f"the reference is a whole solution with the line {found[0]!r}, so every answer "
                "would be wrong: give what follows #### alone, or take the benchmark gsm8k (or "
                "gsm8k=FILE), which reads it",
            )
        depth = 0
        for token in _BRACE.findall(reference):
            depth += {"{": 1, "}": -1}.get(token, 0)
            if depth < 0:
                break
        if depth:
            raise RequestRefused(
                "data",
                f"the reference answer {reference!r} does not parse: its braces are not balanced",
            )

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        """As `Grader.grade`; repeated pairs are compared once."""
        verdict = {pair: equal_if_canonical(*pair) for pair in pairs}
        open_ = [pair for pair, seen in verdict.items() if seen is None]
        done = len(verdict) - len(open_)
        on_progress(done, len(verdict))
        comparisons = [Comparison((), (answer,), reference) for answer, reference in open_]
        for pair, finding in zip(open_, self._pool().compare(comparisons), strict=True):
            verdict[pair] = finding.correct[0]
            done += 1
            on_progress(done, len(verdict))
        return [bool(verdict[pair]) for pair in pairs]

    def classes_of_all(
        self, problems: Sequence[Sequence[str | None]], on_progress: OnProgress = ignore_progress
    ) -> list[list[int]]:
        """As `AnswerGrader.classes`: answers joined by a chain of equal ones share a class."""
        present = [[answer for answer in answers if answer is not None] for answers in problems]
        comparisons = [Comparison(answers, (), None) for answers in present]
        classes = []
        for answers, finding in zip(problems, self._pool().compare(comparisons), strict=True):
            found = iter(finding.classes)
            classes.append([NO_ANSWER if answer is None else next(found) for answer in answers])
            on_progress(len(classes), len(problems))
        return classes

    def stop(self) -> None:
        """Stops the workers."""
        if self._graders is not None:
            self._graders.close()
            self._graders = None

    def _pool(self) -> Graders:
        if self._graders is None:
            self._graders = Graders(self._workers, self._time_limit, _GROUPING_LIMIT)
        return self._graders
