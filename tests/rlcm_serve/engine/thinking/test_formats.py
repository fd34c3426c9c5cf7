"""Every format sorts what a model samples, and leads from every place to an answer."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import ExitReason
from rlcm_serve.core import Budget, Rollout
from rlcm_serve.engine.model_text import ModelText
from rlcm_serve.engine.thinking import available_formats, format_named, registry
from rlcm_serve.engine.thinking.base import NONE, Part, Place
from rlcm_serve.engine.thinking.tags import TagFormat
from rlcm_serve.errors import ModelRefused
from tests.rlcm_serve.engine.thinking.families import (
    CHATML_ALONE,
    FAMILIES,
    HARMONY,
    tokenizer_with,
)
from tests.rlcm_serve.engine.thinking.test_detection import text_of

BUDGET = Budget(thinking=500, answer=100)
TURN = "<|im_end|>"


def text_in(name: str) -> ModelText:
    """A model whose prompt opens nothing, in this format."""
    tokens = [*format_named(name).tokens, *HARMONY, TURN, "<|im_start|>"]
    template = CHATML_ALONE
    return text_of(tokenizer_with(tuple(dict.fromkeys(tokens)), template), thinking=name)


def sampled(text: ModelText, completion: str) -> Rollout:
    """What is made of a completion that ended by itself."""
    ids = [*text.tokenizer.encode(completion), next(iter(text.end_ids))]
    return text.rollout(ids, None, BUDGET)


@pytest.mark.parametrize(
    ("name", "completion"),
    [
        ("deepseek_r1", "<think>Two.</think>2"),
        ("mistral", "[THINK]Two.[/THINK]2"),
        ("seed_oss", "<seed:think>Two.</seed:think>2"),
        ("gemma4", "<|channel>thought\nTwo.<channel|>2"),
        ("cohere_command3", "<|START_THINKING|>Two.<|END_THINKING|><|START_RESPONSE|>2"),
        ("minimax_m3", "<mm:think>Two.</mm:think>2"),
        (
            "openai_gptoss",
            "<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>final<|message|>2",
        ),
    ],
)
def test_thinking_and_answer_come_without_markup(name: str, completion: str) -> None:
    text = text_in(name)
    rollout = sampled(text, completion)
    assert (rollout.text, rollout.answer_text) == ("Two.", "2")
    assert rollout.exit is ExitReason.NATURAL
    ids = text.tokenizer.encode(completion)
    assert len(rollout.tokens) + 1 + rollout.answer_tokens == len(ids) + 1


@pytest.mark.parametrize("name", [name for name in available_formats() if name != "none"])
@pytest.mark.parametrize("completion", ["Two: 2", ""])
def test_a_completion_without_markup_is_its_own_answer(name: str, completion: str) -> None:
    rollout = sampled(text_in(name), completion)
    assert rollout.text == completion
    assert rollout.answer_text == (completion or None)


def test_an_answer_that_the_token_limit_ended_is_not_complete() -> None:
    text = text_in("deepseek_r1")
    ids = text.tokenizer.encode("<think>Two.</think>2")
    cut = text.rollout(ids, None, BUDGET, is_cut=True)
    assert (cut.answer_text, cut.answer_complete) == ("2", False)
    assert sampled(text, "<think>Two.</think>2").answer_complete
    assert cut.cut(1).answer_complete, "it has no answer any more"


@pytest.mark.parametrize("name", [name for name in available_formats() if name != "none"])
def test_thinking_that_stays_open_is_no_answer(name: str) -> None:
    text = text_in(name)
    opened = text.format.lead(Place.START, is_empty=True).split(text.format.end)[0].rstrip("\n")
    if name == "openai_gptoss":
        opened = "<|channel|>analysis<|message|>"
    assert sampled(text, f"{opened}So 2").answer_text is None


def test_only_the_channel_final_is_an_answer() -> None:
    text = text_in("openai_gptoss")
    more = "<|start|>assistant<|channel|>analysis<|message|>Or 3?<|end|>"
    final = "<|start|>assistant<|channel|>final<|message|>2"
    thought = "<|channel|>analysis<|message|>Two.<|end|>"
    assert sampled(text, thought + more + final).answer_text == "2"
    assert sampled(text, thought + more).answer_text is None
    call = "<|start|>assistant<|channel|>commentary to=f <|constrain|>json<|message|>{}"
    assert sampled(text, thought + call).answer_text is None
    assert sampled(text, "<|channel|>final<|message|>2").answer_text == "2"
    assert sampled(text, "<|message|>2").answer_text == "2", "a message without a channel"


@pytest.mark.parametrize(
    ("name", "thinking", "lead"),
    [
        ("deepseek_r1", "<think>Two", "\n</think>\n"),
        ("deepseek_r1", "Two", "\n"),
        ("deepseek_r1", "", "<think>\n\n</think>\n"),
        ("gemma4", "<|channel>thought\nTwo", "\n<channel|>\n"),
        ("cohere_command3", "<|START_THINKING|>T", "\n<|END_THINKING|><|START_RESPONSE|>\n"),
        ("openai_gptoss", "<|channel|>analysis<|message|>Two", "<|end|>{final}"),
        ("openai_gptoss", "<|channel|>analy", "<|message|><|end|>{final}"),
        ("openai_gptoss", "<|channel|>final<|message|>Two", "\n"),
        ("openai_gptoss", "Two", "\n"),
        ("openai_gptoss", "", "<|channel|>final<|message|>"),
        ("none", "Two", "\n"),
        ("none", "", "\n"),
    ],
)
def test_an_answer_is_forced_as_the_model_would_begin_it(
    name: str, thinking: str, lead: str
) -> None:
    text = text_in(name)
    ids = text.close("So: ", after=tuple(text.tokenizer.encode(thinking)))
    final = "<|start|>assistant<|channel|>final<|message|>"
    assert text.tokenizer.decode(ids) == lead.format(final=final) + "So: "


TEXTS = {name: text_in(name) for name in ("openai_gptoss", "gemma4", "deepseek_r1")}
OF_TAGS = ["<think>", "</think>", "<|channel>", "<channel|>", "thought", "\n"]
words = st.lists(
    st.sampled_from(
        [*HARMONY, *OF_TAGS, "analysis", "final", " to=f", "Two.", "中", "\n", "assistant"]
    ),
    max_size=20,
).map("".join)


@given(words, st.lists(st.integers(1, 4), min_size=1))
def test_a_stream_is_the_text_of_the_rollout(completion: str, steps: list[int]) -> None:
    """Whatever a model makes of harmony's tokens, and however they arrive."""
    text, stream = HARMONY_TEXT, HARMONY_TEXT.stream(text=True)
    ids = text.tokenizer.encode(completion)
    ids = ids[: next((at for at, id_ in enumerate(ids) if id_ in text.end_ids), len(ids))]
    rollout = text.rollout([*ids, next(iter(text.end_ids))], None, BUDGET)
    deltas, at = [], 0
    for number in range(len(ids)):
        if at < len(ids):
            step = steps[number % len(steps)]
            deltas += stream.push(ids[at : at + step])
            at += step
    deltas += stream.flush()
    assert sum(delta.tokens for delta in deltas) == len(ids)
    thought = "".join(delta.text for delta in deltas if not delta.is_answer)
    assert thought == rollout.text
    if text.think_end in ids:
        answer = "".join(delta.text for delta in deltas if delta.is_answer)
        assert answer == (rollout.answer_text or "")


@given(words, words, st.sampled_from(["openai_gptoss", "gemma4", "deepseek_r1"]))
def test_tokens_read_together_are_read_as_one_by_one(begin: str, end: str, name: str) -> None:
    text = TEXTS[name]
    ids = text.tokenizer.encode(begin + end)
    cut = len(text.tokenizer.encode(begin))
    together, one_by_one = text.reader(), text.reader()
    assert together.read(ids[:cut]) + together.read(ids[cut:]) == list(map(one_by_one.push, ids))
    assert together.place is one_by_one.place


def test_a_continuation_ends_with_its_message() -> None:
    text = HARMONY_TEXT
    after = text.close("So: ", after=())
    more = "<|start|>assistant<|channel|>analysis<|message|>Or 3?"
    ids = text.tokenizer.encode(f"2}}.<|end|>{more}")
    assert text.continuation(ids, after) == "2}."
    assert TEXTS["deepseek_r1"].continuation(text.tokenizer.encode("2}."), after=()) == "2}."


HARMONY_TEXT = text_of(FAMILIES["gpt-oss"].tokenizer())


def test_a_prompt_that_opens_the_analysis_needs_no_header() -> None:
    template = FAMILIES["gpt-oss"].template.replace(
        "{{ '<|start|>assistant' }}{% endif %}",
        "{{ '<|start|>assistant<|channel|>analysis<|message|>' }}{% endif %}",
    )
    assert template != FAMILIES["gpt-oss"].template
    text = text_of(tokenizer_with(HARMONY, template))
    assert text.reader().place is Place.THINKING
    assert sampled(text, "Two.").answer_text is None
    closed = text.close("So", after=tuple(text.tokenizer.encode("Two.")))
    assert text.tokenizer.decode(closed).startswith("<|end|><|start|>assistant")


def test_a_second_opening_token_is_text() -> None:
    text = text_in("deepseek_r1")
    parts = text.reader().read(text.tokenizer.encode("<think><think>"))
    assert parts == [Part.MARKUP, Part.THINKING]


class _Point(EntryPoint):
    """An entry point of a package that is not installed."""

    def load(self) -> object:
        found = {"mine": TagFormat("mine", "<a>", "</a>"), "class": type(NONE), "wrong": 3}
        return found[self.name]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[_Point]]:
    """Entry points of other packages."""
    points: list[_Point] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    available_formats.cache_clear()
    yield points
    available_formats.cache_clear()


def test_other_packages_add_formats(installed: list[_Point]) -> None:
    installed.append(_Point("mine", "pkg:FORMAT", registry.ENTRY_POINTS))
    installed.append(_Point("class", "pkg:Class", registry.ENTRY_POINTS))
    assert format_named("mine").end == "</a>"
    assert format_named("none") is NONE, "a shipped format is never replaced"


def test_what_is_no_format_is_refused(installed: list[_Point]) -> None:
    installed.append(_Point("wrong", "pkg:THREE", registry.ENTRY_POINTS))
    with pytest.raises(ModelRefused, match=r"'wrong' \(pkg:THREE\) is 3"):
        available_formats()


def test_a_format_that_cannot_be_loaded_is_refused(installed: list[_Point]) -> None:
    installed.append(_Point("gone", "pkg:GONE", registry.ENTRY_POINTS))
    with pytest.raises(ModelRefused, match=r"'gone' .* cannot be loaded"):
        format_named("none")
