"""Graders for each kind of answer, by name."""

from __future__ import annotations

from pkgutil import resolve_name

from rlcm_serve.answers.grading.base import Grader, Pair
from rlcm_serve.answers.profile_graders import installed_grader
from rlcm_serve.errors import ProfileRefused, RequestRefused

GRADERS = {
    "math": "rlcm_serve.evaluation.grading.math:MathGrader",
    "choice": "rlcm_serve.answers.grading.choice:ChoiceGrader",
    "code": "rlcm_serve.evaluation.grading.code:CodeGrader",
    "exact": "rlcm_serve.answers.grading.exact:ExactGrader",
}
"""Module and class of each name that `grader_named` accepts."""

__all__ = ["GRADERS", "Grader", "Pair", "grader_named", "grader_of"]


def grader_named(name: str) -> Grader:
    """The grader with this name, without running workers.

    Args:
        name: one of `GRADERS`, or `module:object` of an installed package, as in a profile.

    Raises:
        RequestRefused: there is no such grader.
    """
    if name in GRADERS:
        grader: Grader = resolve_name(GRADERS[name])()
        return grader
    if ":" not in name:
        known = ", ".join(GRADERS)
        raise RequestRefused(
            "grader", f"{name!r} is not a grader: choose one of {known}, or give module:object"
        )
    try:
        return installed_grader(name)
    except ProfileRefused as error:
        raise RequestRefused("grader", str(error)) from error


def grader_of(recorded: str) -> Grader:
    """Today's version of the grader that a fingerprint names.

    Raises:
        RequestRefused: there is none; the message asks for another grader.
    """
    kind = recorded.partition(" ")[0]
    for grader in map(grader_named, GRADERS):
        if grader.name.partition(" ")[0] == kind:
            return grader
    try:
        return grader_named(kind)
    except RequestRefused as error:
        raise RequestRefused(
            "grader", f"the traces are graded by {recorded!r}, which is unknown here: name a grader"
        ) from error
