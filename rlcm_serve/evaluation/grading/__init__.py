"""Graders by name: what is right, and what is the same, for each kind of answer."""

from __future__ import annotations

from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.base import Grader, Pair

GRADERS = ("math", "choice", "code", "exact")
"""Names that `grader_named` knows."""

__all__ = ["GRADERS", "Grader", "Pair", "grader_named"]


def grader_named(name: str) -> Grader:
    """The grader of that name; nothing of it is started yet.

    Raises:
        RequestRefused: there is none.
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
    raise RequestRefused("grader", f"{name!r} is no grader: take one of {', '.join(GRADERS)}")
