from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcm_serve.core import Message, Role
from rlcm_serve.errors import ProfileRefused
from rlcm_serve.profiles.parts import ACCEPTED
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, PARTS, Profile
from rlcm_serve.profiles.profile_file import find_profiles, load_profile, load_profiles

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00")).filter(str.strip)
AROUND = st.text(st.characters(codec="utf-8", exclude_characters="\x00{}"))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "system": st.none() | TEXTS,
    "template": st.tuples(AROUND, AROUND).map("{problem}".join),
    "variables": st.dictionaries(TEXTS, st.booleans() | st.integers(0, 9) | TEXTS, max_size=3),
    "thinking": st.sampled_from([None, "qwen3", "none"]),
    "temperature": st.none() | st.integers(0, 2) | st.floats(0, 2),
    "top_p": st.none() | st.floats(0.1, 1),
    "top_k": st.none() | st.integers(0, 99),
    "min_p": st.none() | st.floats(0, 1),
    "max_tokens": st.none() | st.integers(1, 9999),
    "answer_max_tokens": st.none() | st.integers(1, 99),
    "extractor": st.sampled_from(["boxed", "text", "regex:(.*)"]),
    "grader": st.sampled_from(["math", "choice"]),
    "schema": st.none() | st.just({"type": "object"}),
}
PROFILES = st.builds(Profile, name=st.sampled_from(["a", "b"]), **VALUES)


@given(PROFILES, PROFILES)
def test_profiles_have_one_digest_if_and_only_if_their_parts_are_equal(
    one: Profile, other: Profile
) -> None:
    renamed = replace(one, name="c", adapter=Path("elsewhere"))
    assert renamed.digest == one.digest
    assert (one.digest == other.digest) == (one.to_json() == other.to_json())


@given(PROFILES, st.data())
def test_a_change_of_any_part_changes_the_digest(one: Profile, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(sorted(VALUES)))
    value = data.draw(VALUES[part].filter(lambda value: value != getattr(one, part)))
    assert replace(one, **{part: value}).digest != one.digest


def test_the_generators_above_know_every_part() -> None:
    assert {*VALUES, "adapter"} == {*PARTS}


def test_equal_numbers_have_one_digest_whatever_their_type() -> None:
    whole, real = Profile(temperature=1, min_p=0), Profile(temperature=1.0, min_p=-0.0)
    assert whole.digest == real.digest


def test_the_default_profile_says_nothing_but_the_question() -> None:
    assert DEFAULT_PROFILE.messages("2 + 2?") == (Message(Role.USER, "2 + 2?"),)
    assert DEFAULT_PROFILE.to_json() == {}


@given(AROUND, AROUND, TEXTS)
def test_a_question_is_put_into_the_template_once(before: str, after: str, question: str) -> None:
    profile = Profile(template=f"{before}{{problem}}{after}")
    filled = profile.fill(question)
    assert filled.startswith(before)
    assert filled.endswith(after)
    assert filled in (question, f"{before}{question}{after}") or filled.strip() == question.strip()
    assert profile.fill(filled) == filled


@pytest.mark.parametrize("end", ["", "\n", "\n\n "])
def test_space_around_the_template_does_not_count(end: str) -> None:
    """A TOML text that ends on a line of its own has a line break that clients strip."""
    profile = Profile(template="Q: {problem}\n\nPut the answer into a box.\n")
    built = profile.fill("2 + 2?")
    assert profile.fill(f"{built.rstrip()}{end}") == built


def test_braces_around_the_question_stay_as_they_are() -> None:
    profile = Profile(template=r'{"q": "{problem}"} Answer in \boxed{}.')
    assert profile.fill("1 + 1?") == r'{"q": "1 + 1?"} Answer in \boxed{}.'


def test_the_system_prompt_comes_first() -> None:
    profile = Profile(system="Be brief.", template="Q: {problem}")
    assert profile.messages("1 + 1?") == (
        Message(Role.SYSTEM, "Be brief."),
        Message(Role.USER, "Q: 1 + 1?"),
    )
    assert profile.has_system_prompt("Be brief.\n")
    assert not profile.has_system_prompt("Be brief")
    assert not DEFAULT_PROFILE.has_system_prompt("")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"template": "Answer briefly."}, "with {problem} 0 times"),
        ({"template": "{problem} Again: {problem}"}, "with {problem} 2 times"),
        ({"template": None}, "template is None"),
        ({"system": "  "}, "system is '  '"),
        ({"system": 3}, "system is 3"),
        ({"variables": {"day": object()}}, "variables is"),
        ({"variables": {"most": float("inf")}}, "variables is"),
        ({"temperature": 2.5}, "temperature is 2.5: give a number from 0 (greedy) to 2"),
        ({"temperature": True}, "temperature is True"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 2.0}, "top_k is 2.0"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"schema": ["object"]}, "schema is ['object']"),
        ({"name": "a:b"}, "its name is 'a:b'"),
        ({"name": ""}, "its name is ''"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_give(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ProfileRefused) as refused:
        Profile(**values)
    assert why in str(refused.value)
    assert ": give " in str(refused.value) or ": write " in str(refused.value)


def test_every_part_is_checked() -> None:
    for part in ACCEPTED:
        with pytest.raises(ProfileRefused, match=part):
            Profile(**{part: object()})


def test_a_file_gives_a_profile_with_all_its_parts(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text('{"type": "object"}')
    file = tmp_path / "support.toml"
    file.write_text(
        """
        system = '''
        You answer customers.'''
        template = "Question: {problem}"
        thinking = "qwen3"
        temperature = 0
        top_k = 20
        max_tokens = 512
        extractor = "json:answer"
        schema = "answer.json"
        adapter = "lora"
        [variables]
        enable_thinking = true
        """
    )
    assert load_profile(file) == Profile(
        name="support",
        system="        You answer customers.",
        template="Question: {problem}",
        variables={"enable_thinking": True},
        thinking="qwen3",
        temperature=0,
        top_k=20,
        max_tokens=512,
        extractor="json:answer",
        schema={"type": "object"},
        adapter=tmp_path / "lora",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sytem = 'x'", "has 'sytem', which no profile has: did you mean system?"),
        ("color = 'x'", "has 'color', which no profile has: give some of name, system"),
        ("system", "is not TOML"),
        ("name = 'default'", "means the model without a profile"),
        ("temperature = 'hot'", "temperature is 'hot'"),
        ("day = 2026-01-01", "has 'day'"),
        ("variables = {day = 2026-01-01}", "variables is"),
        ("schema = 'none.json'", "which has no JSON"),
        ("adapter = '~nobodyhere/x'", "adapter is '~nobodyhere/x': there is no user ~nobodyhere"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ProfileRefused) as refused:
        load_profile(file)
    assert str(file) in str(refused.value)
    assert why in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileRefused, match="cannot read the profile"):
        load_profile(tmp_path / "none.toml")


def test_profiles_of_a_folder_are_found_and_need_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    assert load_profiles(find_profiles(tmp_path)) == ()
    for name in ("brief", "long"):
        (tmp_path / "profiles" / f"{name}.toml").write_text(f"system = 'Be {name}.'")
    names = [profile.name for profile in load_profiles(find_profiles(tmp_path))]
    assert names == ["brief", "long"]
    assert len(load_profiles([*find_profiles(tmp_path), *find_profiles(tmp_path)])) == 2
    (tmp_path / "profiles" / "other.toml").write_text("name = 'brief'")
    with pytest.raises(ProfileRefused, match="both named 'brief'"):
        load_profiles(find_profiles(tmp_path))
