"""The graders that profiles name."""

from __future__ import annotations

from rlcm_serve.answers.extraction import extractor_named
from rlcm_serve.answers.extraction.installed import ENTRY_POINT, installed
from rlcm_serve.answers.grader import GRADER, AnswerGrader
from rlcm_serve.answers.grading.base import KeyedGrader
from rlcm_serve.answers.grading.choice import ChoiceGrader
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.answers.grading.verdicts import KeyedVerdicts, Verdicts
from rlcm_serve.errors import ProfileRefused
from rlcm_serve.profiles.profile import Profile

MATH = "math"
_KEYED: dict[str, Verdicts] = {
    "choice": KeyedVerdicts(ChoiceGrader()),
    "exact": KeyedVerdicts(ExactGrader()),
}


def verdicts_of(profile: Profile, math: AnswerGrader) -> Verdicts:
    """The verdicts under a profile.

    Args:
        profile: names the grader. `module:object` is a `KeyedGrader` or a subclass of it, in a
            package that is installed.
        math: compares mathematical answers.

    Raises:
        ProfileRefused: there is no such grader; the message says why.
    """
    return math if profile.grader == MATH else _keyed(profile.grader)


def verdicts_named(name: str, math: AnswerGrader) -> Verdicts:
    """The verdicts of the grader with this name, as in a fingerprint.

    Raises:
        ProfileRefused: there is no such grader here.
    """
    known = {one.name: one for one in (math, *_KEYED.values())}
    return known.get(name) or _keyed(name.partition(" ")[0])


def verdicts_as_given(name: str | None, profile: Profile | None, math: AnswerGrader) -> Verdicts:
    """The verdicts by which an answer is judged later: those of the grader that it was given under.

    The test of its certificate counts losses as that grader does, whatever the profile says now.

    Args:
        name: of the grader, as in a fingerprint; None if it is not known.
        profile: that has the name of the answer's profile now; its grader stands for an unknown
            one.
        math: compares mathematical answers.

    Raises:
        ProfileRefused: there is no such grader here.
    """
    if name is None:
        if profile is None:
            raise ProfileRefused("its profile is not served any more")
        return verdicts_of(profile, math)
    try:
        found = verdicts_named(name, math)
    except ProfileRefused as error:
        raise ProfileRefused(f"its grader was {name!r}, which is not here") from error
    if found.name != name:
        raise ProfileRefused(f"its grader was {name!r}, and here is {found.name!r}")
    return found


def grader_name(profile: Profile) -> str:
    """Name and version of a profile's grader, for a fingerprint.

    Raises:
        ProfileRefused: there is no such grader.
    """
    return GRADER if profile.grader == MATH else _keyed(profile.grader).name


def require_answerable(profile: Profile) -> None:
    """Returns if the profile's extractor and grader exist.

    Raises:
        ProfileRefused: one does not; the message names the profile.
    """
    try:
        extractor_named(profile.extractor)
        grader_name(profile)
    except ProfileRefused as error:
        raise ProfileRefused(f"profile {profile.name!r}: {error}") from error


def _keyed(spec: str) -> Verdicts:
    if spec in _KEYED:
        return _KEYED[spec]
    if not ENTRY_POINT.fullmatch(spec):
        known = ", ".join((MATH, *_KEYED))
        raise ProfileRefused(f"grader is {spec!r}: give {known} or module:object")
    return KeyedVerdicts(installed_grader(spec))


def installed_grader(spec: str) -> KeyedGrader:
    """A grader of an installed package; its name begins with `spec`.

    Args:
        spec: `module:object`, a `KeyedGrader` or a subclass of it.

    Raises:
        ProfileRefused: it cannot be loaded, or is something else.
    """
    found: KeyedGrader = installed("grader", spec, KeyedGrader)
    found.name = f"{spec} {found.name}"
    return found
