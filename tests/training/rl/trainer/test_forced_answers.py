"""Where rollouts are cut, and what is appended there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.prompts import FORCED_ANSWER, FORCED_SUFFIX
from rlcm_serve.errors import ModelRefused
from training.rl.settings import BudgetSettings
from training.rl.trainer.forced_answers import (
    Thinking,
    budgets,
    cut_points,
    in_batches,
    relative_budgets,
    shares_right,
)

CLOSE, END = 90, 91
THINKS = Thinking(CLOSE, frozenset({END}), (1, 2))
PLAIN = Thinking(None, frozenset({END}), (2,))


@given(st.integers(0, 200), st.integers(1, 40), st.integers(0, 30))
def test_budgets_are_multiples_strictly_before_the_thinking_closes(
    length: int, interval: int, answer: int
) -> None:
    completion = [5] * length + [CLOSE] + [6] * answer + [END]
    found = budgets(THINKS.length(completion), interval)
    assert found == tuple(b for b in range(interval, 300, interval) if b <= length)
    for budget in found:
        assert CLOSE not in completion[:budget]


@pytest.mark.parametrize(
    ("length", "expected"),
    [(400, (100, 200, 300)), (10, (2, 5, 8)), (3, (1, 2)), (2, (1, 2)), (1, (1,)), (0, ())],
)
def test_fractions_of_a_rollout_are_rounded_and_come_once(
    length: int, expected: tuple[int, ...]
) -> None:
    assert relative_budgets(length, (0.25, 0.5, 0.75)) == expected


def test_fractions_replace_the_interval() -> None:
    settings = BudgetSettings(interval=32, fractions=(0.5,))
    assert cut_points(100, settings) == (50,)
    assert cut_points(100, BudgetSettings(interval=32)) == (32, 64, 96)


def test_thinking_that_never_closes_is_cut_to_its_last_token() -> None:
    assert THINKS.length([5] * 64) == 64
    assert budgets(64, 32) == (32, 64)
    assert budgets(31, 32) == ()


def test_a_text_that_ends_inside_the_thinking_is_not_cut_after_its_end() -> None:
    assert THINKS.length([5, 5, END]) == 2


def test_without_thinking_the_whole_completion_is_cut() -> None:
    assert PLAIN.length([5, CLOSE, 5, 5, END]) == 4


def test_answers_are_looked_for_after_the_thinking() -> None:
    assert list(THINKS.answered([5, CLOSE, 6, 7, END])) == [6, 7, END]
    assert list(THINKS.answered([5, 6, 7])) == []
    assert list(PLAIN.answered([5, 6, END])) == [5, 6, END]
    assert list(PLAIN.answered([5, 6])) == []  # cut off, so what it holds may be half an answer


@given(st.integers(0, 12), st.integers(1, 5), st.integers(0, 25))
def test_batches_of_forced_answers_are_bounded_and_split_no_group(
    groups: int, samples: int, more: int
) -> None:
    at_once = samples + more
    prefixes = [[group] for group in range(groups) for _ in range(samples)]
    parts = list(in_batches(prefixes, samples, at_once))
    assert [prefix for part in parts for prefix in part] == prefixes
    for part in parts:
        assert 0 < len(part) <= at_once
        assert len(part) % samples == 0
        assert all(part.count(prefix) == samples for prefix in part)


def test_shares_are_of_k_verdicts_each() -> None:
    verdicts = [True, True, False, True, False, False, False, False]
    assert shares_right(verdicts, 4) == (0.75, 0.0)
    assert shares_right([], 4) == ()


@pytest.fixture(scope="module")
def embedded() -> tuple[ModelFiles, PreTrainedTokenizerBase]:
    return ModelFiles.read(EMBEDDED_MODEL), AutoTokenizer.from_pretrained(EMBEDDED_MODEL)


def test_the_embedded_model_closes_its_thinking_as_the_service_does(
    embedded: tuple[ModelFiles, PreTrainedTokenizerBase],
) -> None:
    files, tokenizer = embedded
    thinking = Thinking.of(files, tokenizer)
    assert tokenizer.decode(thinking.suffix) == FORCED_SUFFIX
    assert thinking.think_end == tokenizer.convert_tokens_to_ids("</think>")
    assert thinking.ends == {tokenizer.eos_token_id}


def test_a_model_that_does_not_think_has_nothing_to_close(
    embedded: tuple[ModelFiles, PreTrainedTokenizerBase],
) -> None:
    files, tokenizer = embedded
    thinking = Thinking.of(files, tokenizer, thinking="none")
    assert thinking.think_end is None
    assert tokenizer.decode(thinking.suffix) == f"\n{FORCED_ANSWER}"


def test_a_template_that_knows_no_thinking_means_none(
    embedded: tuple[ModelFiles, PreTrainedTokenizerBase],
) -> None:
    """As of Qwen3's instruct models, whose tokenizer still has the token."""
    files, _ = embedded
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_MODEL)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    assert Thinking.of(files, tokenizer).think_end is None
    assert Thinking.of(files, tokenizer, thinking="qwen3").think_end is not None


def test_thinking_without_a_token_that_closes_it_is_refused(
    embedded: tuple[ModelFiles, PreTrainedTokenizerBase], tmp_path: Path
) -> None:
    files, _ = embedded
    for path in [*EMBEDDED_MODEL.glob("*token*"), *EMBEDDED_MODEL.glob("*.jinja")]:
        renamed = path.read_text().replace("</think>", "</thunk>")
        (tmp_path / path.name).write_text(renamed)
    (tmp_path / "config.json").write_text(json.dumps(files.config))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    with pytest.raises(ModelRefused, match="--thinking none"):
        Thinking.of(files, tokenizer, thinking="qwen3")
