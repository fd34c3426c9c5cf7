"""Text that arrives in pieces is the text of the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rlcm_serve.core import Delta
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.engine.rollout_stream import RolloutStream
from rlcm_serve.engine.text_stream import TextStream
from rlcm_serve.engine.thinking import Reader, format_named

TOKENIZER: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(EMBEDDED_MODEL)
THINK_END = TOKENIZER.convert_tokens_to_ids("</think>")

# Every token: whole words, single bytes of which few make a character, and special ones.
tokens = st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=40)
texts = st.text(st.sampled_from("a é中文😀́ \n👩‍🚀"), max_size=20).map(
    lambda text: TOKENIZER.encode(text, add_special_tokens=False)
)
steps = st.lists(st.integers(1, 5), min_size=1)


def pieces(ids: list[int], steps: list[int]) -> list[list[int]]:
    """The ids in steps of these sizes, again and again."""
    cut, number = [], 0
    while ids:
        step = steps[number % len(steps)]
        cut.append(ids[:step])
        ids, number = ids[step:], number + 1
    return cut


@given(tokens | texts, steps, st.booleans())
def test_pieces_make_up_the_whole(ids: list[int], steps: list[int], skip: bool) -> None:
    stream = TextStream(TOKENIZER, skip_special_tokens=skip)
    text = "".join(stream.push(piece) for piece in pieces(ids, steps)) + stream.flush()
    assert text == TOKENIZER.decode(ids, skip_special_tokens=skip)
    assert stream.flush() == "", "each piece is given once"


def test_a_character_waits_for_its_last_byte() -> None:
    ids = TOKENIZER.encode("é中!", add_special_tokens=False)
    assert len(ids) == 6
    stream = TextStream(TOKENIZER)
    assert [stream.push([id_]) for id_ in ids] == ["", "é", "", "", "中", "!"]


def test_bytes_that_make_no_character_come_at_the_end() -> None:
    first = TOKENIZER.encode("中", add_special_tokens=False)[0]
    stream = TextStream(TOKENIZER)
    assert stream.push([first]) == ""
    assert stream.flush() == "\N{REPLACEMENT CHARACTER}"


def test_the_work_is_linear_in_a_text_of_unfinished_characters() -> None:
    class Counting:
        tokens = 0

        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            self.tokens += len(ids)
            return TOKENIZER.decode(ids, skip_special_tokens=skip_special_tokens)

    first = TOKENIZER.encode("中", add_special_tokens=False)[0]
    counting = Counting()
    stream = TextStream(counting)  # type: ignore[arg-type]
    ids = [first] * 2000 + TOKENIZER.encode("!" * 1000, add_special_tokens=False)
    text = "".join(stream.push([id_]) for id_ in ids) + stream.flush()
    assert text == TOKENIZER.decode(ids)
    assert counting.tokens < 20 * len(ids)


def opened_reader() -> Reader:
    """A reader of a sample whose prompt has opened the thinking."""
    reader = format_named("deepseek_r1").reader(TOKENIZER)
    reader.push(TOKENIZER.convert_tokens_to_ids("<think>"))
    return reader


@given(tokens | texts, tokens | texts, steps)
def test_an_answer_follows_its_thinking(
    rollout: list[int], answer: list[int], steps: list[int]
) -> None:
    rollout = [id_ for id_ in rollout if id_ != THINK_END]
    stream = RolloutStream(TOKENIZER, opened_reader(), THINK_END)
    ids = [*rollout, THINK_END, *answer]
    deltas = [delta for piece in pieces(ids, steps) for delta in stream.push(piece)]
    deltas += stream.flush()
    of_thought = [delta for delta in deltas if not delta.is_answer]
    assert deltas[: len(of_thought)] == of_thought
    assert sum(delta.tokens for delta in deltas) == len(ids)
    assert sum(delta.tokens for delta in of_thought) == len(rollout) + 1
    assert text_of(of_thought) == TOKENIZER.decode(rollout)
    given = TOKENIZER.decode(answer, skip_special_tokens=True)
    assert text_of(deltas[len(of_thought) :]) == given


@pytest.mark.parametrize("think_end", [THINK_END, None])
def test_thinking_may_stay_open(think_end: int | None) -> None:
    ids = TOKENIZER.encode("3 plus 4 is 7", add_special_tokens=False)
    stream = RolloutStream(TOKENIZER, opened_reader(), think_end)
    assert stream.push(ids) == [Delta(len(ids), "3 plus 4 is 7")]
    assert stream.flush() == []


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)
