"""The grader of a profile decides votes, recorded verdicts and the name in the fingerprint."""

import json

import pytest

from rlcm_serve.answers.grader import GRADER, AnswerGrader
from rlcm_serve.answers.grading.base import KeyedGrader
from rlcm_serve.answers.grading.choice import ChoiceGrader
from rlcm_serve.answers.profile_graders import (
    grader_name,
    require_answerable,
    verdicts_named,
    verdicts_of,
)
from rlcm_serve.core import Question
from rlcm_serve.errors import ProfileRefused, RequestRefused
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, Profile
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.solving.solver import Solver
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine, under

OPTIONS = json.dumps({"letter": "B", "options": ["ribosome", "nucleus"]})
CHOICE = Profile(name="choice", grader="choice", extractor="answer-line")


class FirstLetter(KeyedGrader):
    name = "first letter 1"

    def check_reference(self, reference: str) -> None:
        pass

    def is_right(self, answer: str, reference: str) -> bool:
        return self.key(answer) == self.key(reference)

    def key(self, answer: str) -> str:
        return answer[:1]


OWN = Profile(name="own", grader=f"{__name__}:FirstLetter", extractor="text")


def test_a_fingerprint_names_the_profiles_grader(grader: AnswerGrader) -> None:
    assert fingerprint_of(under(DEFAULT_PROFILE)).grader == GRADER
    assert fingerprint_of(under(CHOICE)).grader == ChoiceGrader().name
    assert fingerprint_of(under(OWN)).grader == f"{__name__}:FirstLetter first letter 1"
    for profile in (DEFAULT_PROFILE, CHOICE, OWN):
        named = verdicts_named(grader_name(profile), grader)
        assert named.name == verdicts_of(profile, grader).name == grader_name(profile)


async def test_votes_are_counted_by_the_profiles_grader(grader: AnswerGrader) -> None:
    says = [Script(c_end=0.6, own=f"Answer: {said}") for said in ("(b)", "a", "option B")]
    engine = ScriptedEngine(*says, profiles=[CHOICE])
    solver = Solver(engine, Guarantees(engine.identities, []), grader)
    question = Question("Which?", 0.1, samples=3, profile="choice")
    solution = await solver.solve(question)
    assert (solution.answer, solution.text) == ("(b)", "Answer: (b)")
    assert solution.tally == {"(b)": pytest.approx(1.2), "a": pytest.approx(0.6)}


async def test_recorded_verdicts_are_the_profiles_graders(grader: AnswerGrader) -> None:
    engine = ScriptedEngine(Script(own="Answer: nucleus"), profiles=[CHOICE])
    recorder = Recorder(engine.under("choice"), grader)
    recorded = await recorder.record(LabelledProblem("p", "Which?", OPTIONS), 0)
    assert recorded.readings[-1].correct == (True,)
    with pytest.raises(RequestRefused, match="reference 'both' does not parse"):
        recorder.check(LabelledProblem("p", "Which?", "both"))


def test_a_profile_with_a_fault_is_refused_by_name() -> None:
    require_answerable(CHOICE)
    require_answerable(OWN)
    for fault, told in {
        "graders": "give math, choice, exact or module:object",
        "nowhere:at_all": "cannot be loaded",
        "os:system": "is no KeyedGrader",
    }.items():
        with pytest.raises(ProfileRefused, match=f"profile 'x': grader is '{fault}'.*{told}"):
            require_answerable(Profile(name="x", grader=fault))
    with pytest.raises(ProfileRefused, match=r"profile 'x': extractor is 'regex:\(', which is no"):
        require_answerable(Profile(name="x", extractor="regex:("))
