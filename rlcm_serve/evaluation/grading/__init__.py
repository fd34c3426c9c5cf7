"""Graders for each kind of answer, by name."""

from __future__ import annotations

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.base import Grader, Pair

GRADERS = ("math", "choice", "code", "exact")
"""Names that `grader_named` accepts."""

__all__ = ["GRADERS", "Grader", "Pair", "grader_named"]


def grader_named(name: str) -> Grader:
    """The grader with this name, without running workers.

    Raises:
        RequestRefused: there is no such grader.
    """
    if name == "math":
        from rlcm_serve.evaluation.grading.math import MathGrader

        return MathGrader()
    if name == "choice":
        from rlcm_serve.evaluation.grading.choice import ChoiceGrader

        return ChoiceGrader()
    if name == "code":
        from rlcm_serve.evaluation.grading.code import CodeGrader

        return CodeGrader()
    if name == "exact":
        from rlcm_serve.evaluation.grading.exact import ExactGrader

        return ExactGrader()
    raise RequestRefused("grader", f"{name!r} is not a grader: choose one of {', '.join(GRADERS)}")
