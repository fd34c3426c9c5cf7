"""Graders for each kind of answer, by name."""

from __future__ import annotations

from pkgutil import resolve_name

from rlcm_serve.answers.grading.base import Grader, Pair
from rlcm_serve.errors import RequestRefused

GRADERS = {
    "math": "rlcm_serve.evaluation.grading.math:MathGrader",
    "choice": "rlcm_serve.answers.grading.choice:ChoiceGrader",
    "code": "rlcm_serve.evaluation.grading.code:CodeGrader",
    "exact": "rlcm_serve.answers.grading.exact:ExactGrader",
}
"""Module and class of each name that `grader_named` accepts."""

__all__ = ["GRADERS", "Grader", "Pair", "grader_named"]


def grader_named(name: str) -> Grader:
    """The grader with this name, without running workers.

    Raises:
        RequestRefused: there is no such grader.
    """
    if name not in GRADERS:
        known = ", ".join(GRADERS)
        raise RequestRefused("grader", f"{name!r} is not a grader: choose one of {known}")
    grader: Grader = resolve_name(GRADERS[name])()
    return grader
