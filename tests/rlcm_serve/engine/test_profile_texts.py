"""What a profile does to a model's prompts, and what is refused before vLLM starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlcm_serve.answers.extraction import extractor_named
from rlcm_serve.answers.extraction.code import CodeExtractor
from rlcm_serve.core import Budget, Sampling
from rlcm_serve.engine.identity import default_text, identify_under
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.prompts import FORCED_ANSWER
from rlcm_serve.errors import ModelRefused, ProfileRefused
from rlcm_serve.profiles.profile import DEFAULT_PROFILE, Profile
from tests.rlcm_serve.engine.thinking.families import CHATML, FAMILIES, tokenizer_with
from tests.rlcm_serve.scripted_engine import IDENTITY

WITHOUT_SYSTEM = """\
{%- for m in messages %}
{%- if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
DROPS_SYSTEM = """\
{%- for m in messages %}
{%- if m.role != 'system' %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def text_of(family: str, *profiles: Profile) -> ModelText:
    tokenizer = FAMILIES[family].tokenizer()
    files = ModelFiles(Path(), {"vocab_size": len(tokenizer) + 8}, {}, None, Path())
    return default_text(EngineSettings(profiles=profiles), files, tokenizer)


@pytest.mark.parametrize(
    ("profile", "opening"),
    [
        (Profile("p"), FORCED_ANSWER),
        (Profile("p", extractor="code"), CodeExtractor.opening),
        (Profile("p", extractor="answer-line"), "Answer:"),
        (Profile("p", extractor="text"), ""),
        (Profile("p", extractor="json:" + "long " * 50), '{"' + "long " * 50 + '": '),
        (Profile("p", extractor="json:a", schema={"type": "object"}), ""),
    ],
)
def test_the_room_for_a_forced_answer_is_that_of_the_profiles_opening(
    profile: Profile, opening: str
) -> None:
    """And the fingerprint has the same forced suffix under every extractor."""
    text = text_of("qwen3")
    under = text.under_profile(profile)
    assert under.suffix_tokens == len(under.close(opening))
    assert under.suffix_text == text.suffix_text
    if len(opening) > len(FORCED_ANSWER):
        assert under.suffix_tokens > text.suffix_tokens


def prompt_of(text: ModelText, profile: Profile) -> str:
    decoded: str = text.tokenizer.decode(text.under_profile(profile).prompt(profile.messages("1?")))
    return decoded


def test_the_default_profile_has_the_prompt_of_the_model() -> None:
    text = text_of("qwen3")
    prompt = text.prompt(DEFAULT_PROFILE.messages("1?"))
    assert text.under_profile(DEFAULT_PROFILE).prompt(DEFAULT_PROFILE.messages("1?")) == prompt


def test_system_prompt_template_and_variables_reach_the_prompt() -> None:
    profile = Profile(
        "brief",
        system="Be brief.",
        template="Q: {problem}",
        variables={"enable_thinking": False},
    )
    prompt = prompt_of(text_of("qwen3"), profile)
    assert "system\nBe brief.<|im_end|>" in prompt
    assert "user\nQ: 1?<|im_end|>" in prompt
    assert prompt.endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize(
    ("family", "variables", "name"),
    [
        ("qwen3", {"enable_thinking": False}, "none"),
        ("qwen3", {"enable_thinking": True}, "deepseek_r1"),
        ("deepseek-v3.1", {"thinking": True}, "deepseek_r1"),
        ("deepseek-v3.1", {}, "none"),
        ("gpt-oss", {"reasoning_effort": "high"}, "openai_gptoss"),
    ],
)
def test_the_thinking_format_is_found_for_each_profile(
    family: str, variables: dict[str, Any], name: str
) -> None:
    text = text_of(family)
    under = text.under_profile(Profile("p", system="Be brief.", variables=variables))
    assert under.format.name == name


@pytest.mark.parametrize(
    "variables", [{"enable_thinking": True}, {"enable_thinking": False}, {"enable_thinking": None}]
)
def test_a_variable_with_the_value_that_it_has_anyway_is_read(variables: dict[str, Any]) -> None:
    text_of("qwen3").under_profile(Profile("p", variables=variables))


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ({"variables": {"enable_thinkin": False}}, "never reads the variable 'enable_thinkin'"),
        (
            {"variables": {"enable_thinking": False, "thinking": True}},
            "never reads the variable 'thinking'",
        ),
        ({"variables": {"tokenize": True}}, "'tokenize' is set by the service"),
        ({"thinking": "qwen4"}, "qwen4"),
        ({"system": "Be brief. /no_think", "thinking": "openai_gptoss"}, "openai_gptoss"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_with_the_profiles_name(
    profile: dict[str, Any], why: str
) -> None:
    with pytest.raises(ProfileRefused, match="profile 'p'") as refused:
        text_of("qwen3").under_profile(Profile("p", **profile))
    assert why in str(refused.value)


@pytest.mark.parametrize("template", [WITHOUT_SYSTEM, DROPS_SYSTEM])
def test_a_chat_template_without_system_prompts_is_found_at_the_start(template: str) -> None:
    tokenizer = tokenizer_with(CHATML, template)
    files = ModelFiles(Path(), {"vocab_size": len(tokenizer) + 8}, {}, None, Path())
    with pytest.raises(ProfileRefused, match="profile 'p': the model's chat template d"):
        ModelText(files, tokenizer).under_profile(Profile("p", system="Be brief."))


def test_what_a_profile_does_not_say_is_as_the_model_has_it() -> None:
    text = text_of("qwen3")
    said = Profile("p", temperature=0, top_k=20, max_tokens=50)
    found = identify_under(said, IDENTITY, text)
    assert found.sampling == Sampling(0, 1.0, top_k=20)
    assert found.budget == Budget(50, IDENTITY.budget.answer)
    assert found.profile is said
    unsaid = identify_under(Profile("q"), IDENTITY, text)
    assert (unsaid.sampling, unsaid.budget) == (IDENTITY.sampling, IDENTITY.budget)


def test_answers_have_the_room_that_the_extractor_needs_unless_somebody_limits_them() -> None:
    text, code = text_of("qwen3"), Profile("p", extractor="code")
    needed = extractor_named("code").answer_tokens
    assert needed is not None
    assert needed > IDENTITY.budget.answer
    assert identify_under(code, IDENTITY, text).budget.answer == needed
    roomy = replace(IDENTITY, budget=Budget(8192, 4 * needed))
    assert identify_under(code, roomy, text).budget.answer == 4 * needed
    assert identify_under(code, IDENTITY, text, 300).budget.answer == 300
    limited = replace(code, answer_max_tokens=100)
    assert identify_under(limited, IDENTITY, text, 300).budget.answer == 100


@pytest.mark.parametrize("extractor", ["boxed", "answer-line", "text", "json:a", "regex:a"])
def test_short_answers_need_no_more_room_than_the_model_gives(extractor: str) -> None:
    found = identify_under(Profile("p", extractor=extractor), IDENTITY, text_of("qwen3"))
    assert found.budget == IDENTITY.budget


def test_a_profile_may_name_the_format_that_the_model_does_not_tell() -> None:
    profile = Profile("p", system="Be brief.", thinking="qwen3")
    text = text_of("strips-history", profile, Profile("q"))
    assert text.format.name == "deepseek_r1"
    found = identify_under(profile, IDENTITY, text.under_profile(profile))
    assert found.thinking == "deepseek_r1", "aliases are one format"
    other = Profile("q", thinking="none")
    for profiles in ((), (profile, other)):
        with pytest.raises(ModelRefused, match="cannot be told"):
            text_of("strips-history", *profiles)
