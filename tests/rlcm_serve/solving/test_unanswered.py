"""Which asks are of one question."""

import pytest

from rlcm_serve.core import Message, Question, Role
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, Profile
from rlcm_serve.solving.asking import ask_under
from rlcm_serve.solving.unanswered import digest_of_ask

MATH = Profile("math", system="You solve.", template="Solve: {problem}")
ASKED = Question("What is 3²?", alpha=0.1)


def digest(text: str, **settings: object) -> bytes:
    question = Question(text, alpha=0.1, **settings)  # type: ignore[arg-type]
    return digest_of_ask(ask_under(question, [DEFAULT_PROFILE, MATH]))


@pytest.mark.parametrize("same", [" What  is\t3²?\n", "What\u2003is 3²?"])
def test_white_space_makes_no_other_question(same: str) -> None:
    assert digest(same) == digest("What is 3²?")


def test_one_letter_written_in_two_ways_is_one_letter() -> None:
    assert digest("Caf\u00e9?") == digest("Cafe\u0301?")


@pytest.mark.parametrize("other", ["What is 32?", "what is 3²?", "What is 3² ?", "3²?"])
def test_other_characters_make_another_question(other: str) -> None:
    assert digest(other) != digest("What is 3²?")


def test_alpha_and_samples_make_no_other_question() -> None:
    asked = Question("What is 3²?", alpha=0.4, samples=4, temperature=0.1)
    assert digest_of_ask(ask_under(asked, [DEFAULT_PROFILE])) == digest("What is 3²?")


def test_a_profile_and_earlier_turns_make_another_question() -> None:
    turns = (Message(Role.USER, "Hi."), Message(Role.ASSISTANT, "Hello."))
    kinds = [
        digest("What is 3²?"),
        digest("What is 3²?", profile="math"),
        digest("What is 3²?", context=turns),
    ]
    assert len(set(kinds)) == 3


def test_the_text_in_its_template_is_the_text() -> None:
    within = digest("Solve: What is 3²?", profile="math")
    assert within == digest("What is 3²?", profile="math")


def test_half_a_surrogate_pair_has_a_digest() -> None:
    assert digest("\ud800 is what?") != digest("is what?")
