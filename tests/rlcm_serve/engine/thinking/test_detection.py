"""The format comes from rendered prompts and the vocabulary; what they do not tell is refused."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from rlcm_serve.core import Budget, Message, Role
from rlcm_serve.engine.model_files import ModelFiles
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.thinking.base import Place
from rlcm_serve.errors import ModelRefused, RequestRefused
from rlcm_serve.profiles.profile import Profile
from tests.rlcm_serve.engine.thinking.families import CHATML, FAMILIES, THINK, tokenizer_with

OFF, ON = {"enable_thinking": False}, {"enable_thinking": True}


def text_of(
    tokenizer: PreTrainedTokenizerFast, generation: dict[str, Any] | None = None, **how: Any
) -> ModelText:
    """The text of a model with room for stop ids; `how` goes to `ModelText`."""
    config = {"vocab_size": len(tokenizer) + 8}
    return ModelText(ModelFiles(Path(), config, generation or {}, None, Path()), tokenizer, **how)


def place_of(text: ModelText) -> Place:
    """Where a sample of this model begins."""
    return text.reader().place


@pytest.mark.parametrize(
    ("family", "variables", "name", "place"),
    [
        ("deepseek-r1", {}, "deepseek_r1", Place.THINKING),
        ("deepseek-v3.1", {}, "none", Place.START),
        ("deepseek-v3.1", {"thinking": False}, "none", Place.START),
        ("deepseek-v3.1", {"thinking": True}, "deepseek_r1", Place.THINKING),
        ("qwen3", {}, "deepseek_r1", Place.START),
        ("qwen3", ON, "deepseek_r1", Place.START),
        ("qwen3", OFF, "none", Place.START),
        ("qwen3-instruct-2507", {}, "none", Place.START),
        ("qwen3-thinking-2507", {}, "deepseek_r1", Place.THINKING),
        ("gpt-oss", {}, "openai_gptoss", Place.START),
        ("gpt-oss", {"reasoning_effort": "high"}, "openai_gptoss", Place.START),
        ("magistral", {}, "mistral", Place.START),
        ("seed-oss", {}, "seed_oss", Place.START),
        ("seed-oss", {"thinking_budget": 512}, "seed_oss", Place.START),
        ("seed-oss", {"thinking_budget": 0}, "seed_oss", Place.THINKING),
        ("glm-4.5", {}, "deepseek_r1", Place.START),
        ("glm-4.5", OFF, "none", Place.START),
        ("nemotron-3", {}, "deepseek_r1", Place.THINKING),
        ("nemotron-3", OFF, "none", Place.START),
        ("nemotron-nano-2", {}, "deepseek_r1", Place.THINKING),
        ("nemotron-super", {}, "deepseek_r1", Place.START),
        ("smollm3", {}, "deepseek_r1", Place.START),
        ("smollm3", OFF, "none", Place.START),
        ("phi-4-reasoning", {}, "deepseek_r1", Place.START),
        ("kimi-k2-thinking", {}, "deepseek_r1", Place.START),
        ("gemma-4", {}, "none", Place.START),
        ("gemma-4", ON, "gemma4", Place.START),
        ("gemma-4-large", {}, "none", Place.START),
        ("gemma-4-large", ON, "gemma4", Place.START),
        ("plain", {}, "none", Place.START),
    ],
)
def test_the_rendered_prompt_tells_the_format(
    family: str, variables: dict[str, Any], name: str, place: Place
) -> None:
    text = text_of(FAMILIES[family].tokenizer(), variables=variables)
    assert text.format.name == name
    assert place_of(text) is place


@pytest.mark.parametrize(
    ("family", "choices"),
    [
        ("strips-history", "deepseek_r1 or none"),
        ("writes-reasoning", "deepseek_r1 or none"),
        ("two-formats", "deepseek_r1 or mistral or none"),
        ("no-closing-token", "none"),
        ("olmo-3-think", "none"),
        ("unknown-form", "none"),
    ],
)
def test_what_the_prompt_does_not_tell_is_refused_with_the_choices(
    family: str, choices: str
) -> None:
    tokenizer = FAMILIES[family].tokenizer()
    with pytest.raises(ModelRefused, match=f"--thinking FORMAT`.*: {choices}$"):
        text_of(tokenizer)
    for name in choices.split(" or "):
        assert text_of(tokenizer, thinking=name).format.name == name


def test_a_system_prompt_may_turn_thinking_off() -> None:
    for family in ("nemotron-super", "nemotron-nano-2", "smollm3"):
        text = text_of(FAMILIES[family].tokenizer())
        assert text.think_end is not None
        assert text.under(system="Be brief. /no_think").think_end is None


def test_a_users_template_may_turn_thinking_off() -> None:
    text = text_of(FAMILIES["nemotron-nano-2"].tokenizer())
    brief = text.under_profile(Profile("brief", template="{problem} Be brief. /no_think"))
    assert (text.format.name, brief.format.name) == ("deepseek_r1", "none")
    messages = [Message(Role.USER, "1 + 1? Be brief. /no_think")]
    assert brief.prompt(messages)
    with pytest.raises(RequestRefused, match="/no_think"):
        text.prompt(messages)
    said = Profile("said", template="Do not write <think>: {problem} <think>")
    assert text_of(FAMILIES["plain"].tokenizer()).under_profile(said).format.name == "none"
    qwen = text_of(FAMILIES["qwen3-instruct-2507"].tokenizer())
    assert qwen.under_profile(said).format.name == "none", "it is text, not the token"


def test_a_system_prompt_in_the_place_of_the_instructions_may_leave_thinking_on() -> None:
    """SmolLM3's mode is said beside its instructions."""
    text = text_of(FAMILIES["smollm3"].tokenizer())
    assert text.under(system="Be brief.").format.name == "deepseek_r1"


def test_what_ends_a_text_for_vllm_is_known_beside_what_the_files_say() -> None:
    """vLLM stops at the tokenizer's own end as well."""
    tokenizer = FAMILIES["qwen3"].tokenizer()
    other = tokenizer.convert_tokens_to_ids("<|im_start|>")
    text = text_of(tokenizer, {"eos_token_id": other})
    assert text.end_ids == {other, tokenizer.eos_token_id}
    ids = [*tokenizer.encode("<think>1"), tokenizer.eos_token_id]
    rollout = text.rollout(ids, None, Budget(thinking=8, answer=4))
    assert rollout.tokens == tuple(ids[:-1])


def test_a_system_prompt_that_replaces_the_instructions_leaves_it_open() -> None:
    """Magistral is told to think by its own system prompt."""
    text = text_of(FAMILIES["magistral"].tokenizer())
    assert text.under(system="Be brief.").format.name == "none"
    assert text.under(system="Be brief.", thinking="mistral").format.name == "mistral"


def test_tokens_in_a_system_prompt_are_text() -> None:
    text = text_of(FAMILIES["qwen3-instruct-2507"].tokenizer())
    assert text.under(system="Never write <think>.").format.name == "none"


def test_one_model_has_several_texts() -> None:
    text = text_of(FAMILIES["qwen3"].tokenizer())
    off = text.under(variables=OFF)
    assert (text.format.name, off.format.name) == ("deepseek_r1", "none")
    question = [Message(Role.USER, "1 + 1?")]
    prompts = [text.tokenizer.decode(one.prompt(question)) for one in (text, off)]
    assert prompts[1] == prompts[0] + "<think>\n\n</think>\n\n"
    assert off.under().format.name == "deepseek_r1", "variables are not inherited"


def test_a_name_wins_over_what_the_files_say_and_that_over_the_prompt() -> None:
    tokenizer = FAMILIES["qwen3"].tokenizer()
    assert text_of(tokenizer, {"thinking": "none"}).format.name == "none"
    assert text_of(tokenizer, {"thinking": "none"}, thinking="qwen3").think_end is not None
    assert text_of(tokenizer, {"thinking": "none"}).under(thinking="qwen3").think_end is not None


def test_names_of_vllms_parsers_are_known() -> None:
    tokenizer = FAMILIES["deepseek-r1"].tokenizer()
    for name in ("deepseek_r1", "deepseek_v3", "qwen3", "glm45", "nemotron_v3", "kimi_k2"):
        assert text_of(tokenizer, thinking=name).suffix_text.startswith("\n</think>\n")


def test_an_unknown_name_is_refused_with_all_names() -> None:
    with pytest.raises(ModelRefused, match=r"no thinking format 'gpt_oss'.*openai_gptoss"):
        text_of(FAMILIES["gpt-oss"].tokenizer(), thinking="gpt_oss")


def test_a_format_without_its_tokens_is_refused() -> None:
    with pytest.raises(ModelRefused, match=r"openai_gptoss, but .* no token '<\|start\|>'"):
        text_of(FAMILIES["qwen3"].tokenizer(), thinking="openai_gptoss")


def test_a_format_that_the_prompt_closes_is_refused() -> None:
    with pytest.raises(ModelRefused, match=r"ends the prompt with .*</think>.*enable_thinking"):
        text_of(FAMILIES["deepseek-v3.1"].tokenizer(), thinking="deepseek_v3")


def test_the_setting_before_formats_had_names_is_refused() -> None:
    with pytest.raises(ModelRefused, match=r'thinks = False.*"thinking": "none"'):
        text_of(FAMILIES["qwen3"].tokenizer(), {"thinks": False})


def test_a_question_cannot_turn_thinking_off() -> None:
    text = text_of(FAMILIES["nemotron-nano-2"].tokenizer())
    text.prompt([Message(Role.USER, "1 + 1?")])
    with pytest.raises(RequestRefused, match=r"ends with '</think>'.*'<think>'.*/no_think"):
        text.prompt([Message(Role.USER, "1 + 1? /no_think")])


def test_a_conversation_with_earlier_answers_thinks_as_one_question_does() -> None:
    earlier = [
        Message(Role.USER, "1 + 1?"),
        Message(Role.ASSISTANT, "<think>1</think>2"),
        Message(Role.USER, "And 2 + 2?"),
    ]
    for name in ("deepseek-r1", "qwen3", "glm-4.5", "nemotron-3", "gpt-oss", "seed-oss"):
        assert text_of(FAMILIES[name].tokenizer()).prompt(earlier)


def test_a_vocabulary_that_is_shared_says_nothing() -> None:
    tokenizer = tokenizer_with(
        (*THINK, "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", *CHATML),
        FAMILIES["plain"].template,
    )
    assert text_of(tokenizer).format.name == "none"


def test_instructions_before_the_question_end_no_prompt() -> None:
    """A template without tokens behind the question, and with thinking before it."""
    tokenizer = tokenizer_with(
        (*THINK, *CHATML),
        "{{ 'Think in <think></think>.' }}{% for m in messages %}{{ m.role + ': ' + m.content }}"
        "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
    )
    text = text_of(tokenizer)
    assert text.format.name == "deepseek_r1"
    assert text.prompt([Message(Role.USER, "1 + 1?")])


REAL = {
    "deepseek_r1_distill": "deepseek_r1",
    "deepseekv3": "deepseek_r1",
    "gemma3": "none",
    "gemma4": "none",
    "gemma4_v5": "none",
    "glm4moe": "deepseek_r1",
    "gptoss": "openai_gptoss",
    "lfm2_2_5": None,
    "llama3_2": "none",
    "muse_glimmer": None,
    "nemotron_3_nano": "deepseek_r1",
    "nemotron_3_super": "deepseek_r1",
    "phi3": "none",
    "qwen2_5": "none",
    "qwen3": "deepseek_r1",
    "qwen3_5_nothink": "none",
    "qwen3_5_think": "deepseek_r1",
    "qwen3_instruct_2507": "none",
    "qwen3_vl": "none",
}
"""Templates of the Hub that TRL keeps, and what each means by default; None is refused."""
REAL_TOKENS = (
    *THINK,
    *CHATML,
    *("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"),
    *("<｜User｜>", "<｜Assistant｜>", "<|user|>", "<|assistant|>", "<|system|>"),
    *("<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>", "<|eot_id|>"),
)


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")
@pytest.mark.parametrize("name", REAL)
def test_real_templates_mean_what_their_models_do(name: str) -> None:
    (root,) = find_spec("trl").submodule_search_locations  # type: ignore[union-attr]
    template = (Path(root) / "chat_templates" / f"{name}.jinja").read_text()
    tokenizer = tokenizer_with(REAL_TOKENS, template)
    expected = REAL[name]
    if expected is None:
        with pytest.raises(ModelRefused, match="cannot be told"):
            text_of(tokenizer)
    else:
        assert text_of(tokenizer).format.name == expected
