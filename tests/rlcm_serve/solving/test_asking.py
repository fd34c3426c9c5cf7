import pytest

from rlcm_serve.core import Message, Question, Role
from rlcm_serve.errors import RequestRefused
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, Profile
from rlcm_serve.solving.asking import ask_under

BRIEF = Profile("brief", system="Be brief.", template="Q: {problem}")
CAREFUL = Profile("careful", system="Be careful.")
CAREFUL_TOO = Profile("careful-2", system="Be careful.", temperature=0.5)
PLAIN = Profile("plain", template="Solve: {problem}")
PROFILES = (DEFAULT_PROFILE, BRIEF, CAREFUL, CAREFUL_TOO, PLAIN)


def system(text: str) -> Message:
    return Message(Role.SYSTEM, text)


def user(text: str) -> Message:
    return Message(Role.USER, text)


def question(text: str, *context: Message, profile: str | None = None) -> Question:
    return Question(text, 0.1, context=context, profile=profile)


ASKED = (system("Be brief."), user("Q: 1 + 1?"))


@pytest.mark.parametrize(
    "asked",
    [
        question("1 + 1?", profile="brief"),
        question("Q: 1 + 1?", profile="brief"),
        question("1 + 1?", system("Be brief."), profile="brief"),
        question("Q: 1 + 1?", system("Be brief.\n"), profile="brief"),
        question("1 + 1?", system("Be brief.")),
        question("Q: 1 + 1?", system("Be brief.")),
    ],
)
def test_a_question_is_under_a_profile_that_it_names_or_whose_system_prompt_it_has(
    asked: Question,
) -> None:
    assert ask_under(asked, PROFILES) == (BRIEF, ASKED, ())


def test_a_question_without_both_is_under_the_default_profile() -> None:
    assert ask_under(question("1 + 1?"), PROFILES) == (DEFAULT_PROFILE, (user("1 + 1?"),), ())


def test_a_profile_without_a_system_prompt_needs_its_name() -> None:
    named = ask_under(question("1 + 1?", profile="plain"), PROFILES)
    assert named == (PLAIN, (user("Solve: 1 + 1?"),), ())


@pytest.mark.parametrize(
    ("asked", "profile", "why"),
    [
        (
            question("1?", system("Be kind.")),
            DEFAULT_PROFILE,
            "no profile here has its system prompt; put it",
        ),
        (question("1?", system("")), DEFAULT_PROFILE, "no profile here has its system prompt"),
        (
            question("1?", system("Be careful.")),
            DEFAULT_PROFILE,
            "is that of 'careful' and 'careful-2': name one of them in `profile`",
        ),
        (
            question("1?", system("Be kind."), profile="careful"),
            CAREFUL,
            "is not that of the profile 'careful': leave it out",
        ),
        (
            question("1?", system("Be brief."), profile="default"),
            DEFAULT_PROFILE,
            "is not that of the profile 'default'",
        ),
        (question("1?", user("Hi."), Message(Role.ASSISTANT, "Ho.")), DEFAULT_PROFILE, "several"),
        (question("1?", user("Hi."), system("Be brief.")), DEFAULT_PROFILE, "put it first"),
        (question("1?", system("Be brief."), system("Be kind.")), BRIEF, "put it first"),
    ],
)
def test_another_conversation_is_none_of_the_profile_and_says_what_to_do(
    asked: Question, profile: Profile, why: str
) -> None:
    found = ask_under(asked, PROFILES)
    assert found.profile == profile
    assert any(why in departure for departure in found.departures)


@pytest.mark.parametrize("name", [None, "careful", "default"])
def test_the_model_reads_the_system_prompt_that_the_request_has(name: str | None) -> None:
    own = (system("Be kind."), user("Hi."), Message(Role.ASSISTANT, "Ho."))
    found = ask_under(question("1?", *own, profile=name), PROFILES)
    assert found.messages == (*own, user("1?"))


def test_later_turns_keep_the_profile_and_lose_the_guarantee() -> None:
    before = (user("Hi."), Message(Role.ASSISTANT, "Ho."))
    found = ask_under(question("1?", *before, profile="brief"), PROFILES)
    assert found.messages == (system("Be brief."), *before, user("Q: 1?"))
    assert found.departures == (
        "the conversation has several turns; certificates assume one question",
    )


def test_a_profile_that_is_not_served_is_refused_with_those_that_are() -> None:
    with pytest.raises(RequestRefused, match="profile is 'breif', which is not served") as refused:
        ask_under(question("1?", profile="breif"), PROFILES)
    assert refused.value.field == "profile"
    assert "default, brief, careful, careful-2, plain" in str(refused.value)
