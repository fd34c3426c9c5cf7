import json
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.aggregation.formats import decoding, explaining
from rlcm_serve.aggregation.formats.decoding import RolloutDecoder
from rlcm_serve.aggregation.rollouts import ITEMS, LINES, ROWS, check_rollouts, rollouts_of
from rlcm_serve.errors import RequestRefused

GOOD = {"problem_id": "a", "answer": "7", "confidence": 0.5}


def read_lines(text: bytes, cut: int = 7, *, ignore_extra: bool = False) -> list[dict[str, object]]:
    blocks = [text[start : start + cut] for start in range(0, len(text), cut)]
    return rows(RolloutDecoder(ignore_extra=ignore_extra).read_lines(blocks))


def read_array(text: bytes) -> list[dict[str, object]]:
    return rows(RolloutDecoder().read_array(msgspec.Raw(text)))


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def lines(*items: object) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def test_lines_are_read_wherever_they_are_cut() -> None:
    text = lines(GOOD, GOOD | {"answer": None, "reference": "ä"}) + b"\n  \r\n" + lines(GOOD)[:-1]
    expected = [
        {"problem_id": "a", "answer": "7", "confidence": 0.5, "reference": None, "row": 1},
        {"problem_id": "a", "answer": None, "confidence": 0.5, "reference": "ä", "row": 2},
        {"problem_id": "a", "answer": "7", "confidence": 0.5, "reference": None, "row": 5},
    ]
    for cut in (1, 2, 7, 50, 10_000):
        assert read_lines(text, cut) == expected


def test_no_lines_and_no_items() -> None:
    assert read_lines(b"") == read_lines(b"\n\n") == read_array(b"[]") == read_array(b"[ ]") == []


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        (b"7", "rollouts", "line 2: 7 is not a rollout: give an object"),
        (b"{", "rollouts", "line 2: '{' is not JSON"),
        (b'{"problem_id": "a", "answer": "\xff"}', "rollouts", "line 2: .* is not JSON"),
        (b'{"answer": "7"}', "problem_id", "line 2: problem_id is missing: give a string"),
        (b'{"problem_id": "a"}', "answer", "line 2: answer is missing: give .* null"),
        (b'{"problem_id": 3, "answer": "7"}', "problem_id", "line 2: problem_id is 3: give a stri"),
        (b'{"problem_id": "a", "answer": 7}', "answer", "line 2: answer is 7: give a string"),
        (
            b'{"problem_id": "a", "answer": "7", "confidence": "0.5"}',
            "confidence",
            "line 2: confidence is '0.5': give a number from 0 to 1",
        ),
        (
            b'{"problem_id": "a", "answer": "7", "confidence": true}',
            "confidence",
            "line 2: confidence is True: give a number",
        ),
        (
            b'{"problem_id": "a", "answer": "7", "refrence": "7"}',
            "refrence",
            "line 2: there is no field 'refrence': .* reference; leave it out, or set ignore_extra",
        ),
        (b'{"problem_id": "a", "answer": "7"} {}', "rollouts", "line 2: .* is not JSON"),
        (b'{"problem_id": "a", "answer": "\\ud800"}', "rollouts", "line 2"),
        (b"[" * 100_000, "rollouts", "line 2: .* is not JSON"),
    ],
)
def test_a_bad_line_is_named_with_field_value_and_remedy(
    line: bytes, field: str, message: str
) -> None:
    for text in (lines(GOOD) + line + b"\n" + lines(GOOD), lines(GOOD) + line):
        with pytest.raises(RequestRefused, match=message) as refused:
            read_lines(text, 10_000)
        assert refused.value.field == field


def test_further_fields_are_passed_over_if_asked() -> None:
    text = lines(GOOD | {"tokens": 17, "text": {"deep": [1]}})
    assert read_lines(text, ignore_extra=True)[0]["answer"] == "7"


def test_a_line_without_end_is_refused_before_it_fills_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "LONGEST_LINE", 1000)
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 100

    with pytest.raises(RequestRefused, match="line 1: give at most 1000 bytes"):
        rows(RolloutDecoder().read_lines(endless()))
    assert taken == 11


def test_a_long_line_in_small_blocks_takes_no_quadratic_time() -> None:
    text = lines(GOOD | {"answer": "7" * (decoding.LONGEST_LINE - 100)})
    began = time.thread_time()
    assert len(read_lines(text, 512)) == 1
    assert time.thread_time() - began < 5, "seconds; 28 when it was quadratic"


@pytest.mark.parametrize(
    "text",
    [
        b'{"problem_id": "a", "answer": "7", "%b": 1}' % (b"x" * 1000),
        b'{"%b": 1, and so on' % (b"x" * 1000),
        b'"%b"' % (b"x" * 1000),
        b"x" * 1000,
        b'{"problem_id": "a", "answer": [%b[]]}' % (b"[1, 1, 1], " * 1000),
        b'{"problem_id": "a", "answer": "7", "confidence": "%b"}' % (b"x" * 1000),
        b'{"problem_id": "a", "answer": "7", "reference": "%b"}' % (b" " * 1000),
        b'{"problem_id": "a", "answer": "7", "%b": 1}' % (b"x" * 2**21),
    ],
)
def test_no_message_quotes_a_long_value(text: bytes) -> None:
    for read in (read_lines, lambda text: read_array(b"[%b]" % text)):
        with pytest.raises(RequestRefused) as refused:
            check_rollouts(rollouts_of(*columns(read(text))), LINES, weighs=False)
        assert len(str(refused.value)) < 300
        assert len(refused.value.field) < 100


def columns(rows: list[dict[str, object]]) -> list[list[Any]]:
    return [
        [row[name] for row in rows] for name in ("problem_id", "answer", "confidence", "reference")
    ]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_lines, b'{"problem_id": "a", "answer": "7", "x": 1}'),
        (read_array, b'[{"problem_id": "a", "answer": "7", "x": 1}]'),
    ],
)
def test_only_short_json_is_read_again_to_explain_an_error(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[bytes], object], text: bytes
) -> None:
    monkeypatch.setattr(explaining, "LONGEST_EXPLAINED", len(text))
    with pytest.raises(RequestRefused, match="there is no field 'x'"):
        read(text)
    monkeypatch.setattr(explaining, "LONGEST_EXPLAINED", len(text) - 1)
    monkeypatch.setattr(explaining, "json", None)
    with pytest.raises(RequestRefused, match="unknown field `x`"):
        read(text)


answers = st.text(st.sampled_from('},{[]"\\: \nab'), max_size=12)


@settings(max_examples=200)
@given(st.lists(answers, max_size=30), st.integers(1, 40), st.integers(0, 8), st.booleans())
def test_an_array_is_read_whatever_its_strings_hold(
    texts: list[str], piece: int, between: int, is_loose: bool
) -> None:
    items = [{"problem_id": "a", "answer": text} for text in texts]
    separators = (" ,\n ", " : ") if is_loose else (",", ":")
    text = json.dumps(items, separators=separators).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_PIECE", piece)
        patch.setattr(decoding, "_LONGEST_BETWEEN", between)
        read = read_array(text)
    assert [row["answer"] for row in read] == texts
    assert [row["row"] for row in read] == list(range(len(texts)))


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (b'{"a": 1}', "rollouts", "give an array"),
        (b"null", "rollouts", "rollouts is null: give an array"),
        (b'[{"problem_id": "a", "answer": "7"}, 7]', "rollouts[1]", "7 is not a rollout"),
        (b'[{"problem_id": "a", "answer": 7}]', "rollouts[0].answer", "answer is 7: give a string"),
        (
            b'[{"problem_id": "a", "answer": "7"}, ]',
            "rollouts[0]",
            "the JSON is invalid here or later",
        ),
    ],
)
def test_a_bad_item_is_named(text: bytes, field: str, message: str) -> None:
    with pytest.raises(RequestRefused, match=message) as refused:
        read_array(text)
    assert refused.value.field == field


def test_a_bad_item_far_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_PIECE", 300)
    items: list[dict[str, object]] = [dict(GOOD) for _ in range(1000)]
    items[777]["answer"] = 7
    with pytest.raises(RequestRefused, match=r"rollouts\[777\]: answer is 7"):
        read_array(json.dumps(items).encode())


def test_an_array_of_braces_in_strings_takes_no_quadratic_time() -> None:
    item = {"problem_id": "a", "answer": "},{" * 700_000}
    assert read_array(json.dumps([item, item]).encode())[1]["answer"] == item["answer"]


class Spans:
    """A pattern that notes how many bytes each search may look at."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self.longest = 0

    def search(self, text: memoryview, start: int, end: int | None = None) -> Any:
        end = len(text) if end is None else min(end, len(text))
        self.longest = max(self.longest, end - start)
        return self._pattern.search(text, start, end)


def test_no_search_holds_up_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = Spans(decoding._BETWEEN_ITEMS)
    monkeypatch.setattr(decoding, "_BETWEEN_ITEMS", spans)
    item = {"problem_id": "a", "answer": "}" * 2**22}
    assert len(read_array(json.dumps([item, GOOD]).encode())) == 2
    assert 0 < spans.longest <= 2**19


@pytest.mark.parametrize(
    ("row", "weighs", "message"),
    [
        (("", "7", 0.5, None), False, "line 1: problem_id is '': give at least one character"),
        (("a", "7", 1.5, None), False, "line 1: confidence is 1.5: give a number from 0 to 1"),
        (("a", "7", -0.1, None), True, "line 1: confidence is -0.1"),
        (("a", "7", float("nan"), None), True, "line 1: confidence is nan"),
        (("a", "7", None, None), True, "line 1: confidence is missing: .* or set vote to majority"),
        (("a", "7", 0.5, " "), True, "line 1: reference is ' ': give the true answer, or null"),
    ],
)
def test_values_out_of_range_are_refused(
    row: tuple[str, str, float | None, str | None], weighs: bool, message: str
) -> None:
    batch = rollouts_of(*[[value] for value in row])
    with pytest.raises(RequestRefused, match=message):
        check_rollouts(batch, LINES, weighs=weighs)


def test_rows_are_called_what_they_are() -> None:
    batch = rollouts_of(["a"], ["7"], [2.0])
    with pytest.raises(RequestRefused, match=r"row 1: confidence is 2\.0") as refused:
        check_rollouts(batch, ROWS, weighs=True)
    assert refused.value.field == "confidence"
    with pytest.raises(RequestRefused) as refused:
        check_rollouts(batch, ITEMS, weighs=True)
    assert refused.value.field == "rollouts[1].confidence"


def test_majority_needs_no_confidence() -> None:
    check_rollouts(rollouts_of(["a"], ["7"]), LINES, weighs=False)


def test_many_lines_in_a_random_cut() -> None:
    rng = random.Random(0)
    items = [GOOD | {"problem_id": f"p{at}"} for at in range(2000)]
    text = lines(*items)
    blocks, start = [], 0
    while start < len(text):
        size = rng.randint(1, 5000)
        blocks.append(text[start : start + size])
        start += size
    read = rows(RolloutDecoder().read_lines(blocks))
    assert [row["problem_id"] for row in read] == [item["problem_id"] for item in items]
    assert [row["row"] for row in read] == list(range(1, 2001))
