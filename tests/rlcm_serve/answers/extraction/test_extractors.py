import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcm_serve.answers.extraction import BOXED, BoxedExtractor, Extractor, extractor_named
from rlcm_serve.errors import ProfileRefused

LINE = extractor_named("answer-line")
TEXT = extractor_named("text")
CODE = extractor_named("code")
JSON = extractor_named("json:answer")
NUMBER = extractor_named(r"regex:(?m)^Result = (\d+)")

WRITTEN = st.text(
    st.sampled_from('ab1{}[]"\\:, \n*_.}') | st.characters(codec="utf-8"), max_size=30
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


class Shouted(BoxedExtractor):
    def find(self, text: str) -> str | None:
        found = super().find(text)
        return None if found is None else found.upper()


class Unfinished(Extractor):
    def find(self, text: str) -> str | None:
        return text or None


class Whole(Extractor):
    def find(self, text: str) -> str | None:
        return text or None

    def close(self, continuation: str, complete: bool = True) -> str | None:
        return self.find(continuation) if complete else None

    def shown(self, continuation: str, answer: str) -> str:
        return answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3 + 5 = 8\nAnswer: 8", "8"),
        ("Answer: 7\nNo.\nFinal answer: 8\n", "8"),
        ("**Answer:** 8", "8"),
        ("**Answer: 8**", "8"),
        ("- answer : x_1", "x_1"),
        ("> ## Answer: 8\nIt is.", "8"),
        ("Answer: 8\nAnswer:", "8"),
        ("The answer: 8", None),
        ("It is 8.", None),
        ("", None),
    ],
)
def test_the_last_answer_line_counts(text: str, answer: str | None) -> None:
    assert LINE.find(text) == answer


@pytest.mark.parametrize(
    ("continuation", "complete", "answer"),
    [
        (" 8\nSo it is.", False, "8"),
        (" 8", True, "8"),
        (" 8", False, None),
        ("\n8\n", False, "8"),
        ("\n", True, None),
        (" **8**", True, "8"),
    ],
)
def test_a_forced_line_ends_with_the_line_or_with_the_text(
    continuation: str, complete: bool, answer: str | None
) -> None:
    assert LINE.close(continuation, complete) == answer


def test_the_whole_text_is_an_answer_unless_it_was_cut_off() -> None:
    assert TEXT.find(" yes, it is \n") == "yes, it is"
    assert TEXT.find(" \n") is None
    assert TEXT.close("yes", complete=True) == "yes"
    assert TEXT.close("yes", complete=False) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": 8}', "8"),
        ('```json\n{"why": "3 + 5", "answer": " 8 "}\n```', "8"),
        ('{"answer": 7}, no: {"answer": 8}', "8"),
        ('{"answer": {"answer": 3}}', '{"answer":3}'),
        ('{"answer": 8, "of": {"answer": 3}}', "8"),
        (r'\frac{1}{2} {"answer": [1, 2]} \boxed{3}', "[1,2]"),
        ('{"answer": 7} {"other": 8}', "7"),
        ('{"answer": true}', "true"),
        ('{"answer": 0}', "0"),
        ('{"answer": null}', None),
        ('{"answer": ""}', None),
        ('{"answer": NaN}', None),
        ('{"answer": 8', None),
        ("8", None),
        ("{" * 100_000, None),
        ('{"a":' * 100_000, None),
        ('{"answer": ' + "9" * 100_000 + "}", "9" * 100_000),
        ('{"answer": ' + "[" * 50_000 + "]" * 50_000 + "}", None),
    ],
)
def test_the_field_of_the_last_object_that_has_it_counts(text: str, answer: str | None) -> None:
    began = time.monotonic()
    assert JSON.find(text) == answer
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("continuation", "complete", "answer"),
    [
        ('8, "why": "3 + ', False, "8"),
        ("8}", False, "8"),
        ("8", True, "8"),
        ("8", False, None),
        ('"8"', False, "8"),
        ('"eig', True, None),
        ("[1, 2]", False, "[1,2]"),
        ("null}", True, None),
        ("eight", True, None),
        ('8 , "why": 3', False, "8"),
        ("8,", False, "8"),
        ("3/4}", True, None),
        ("2^10}", True, None),
        ("12.5%}", True, None),
        ("1,250 people}", True, None),
        ("007}", True, None),
        ("12.", False, None),
        ('"7" apples}', True, None),
    ],
)
def test_a_forced_field_ends_with_its_value(
    continuation: str, complete: bool, answer: str | None
) -> None:
    assert JSON.opening == '{"answer": '
    assert JSON.close(continuation, complete) == answer


@given(VALUES)
def test_a_json_value_is_found_as_it_was_written(value: object) -> None:
    written = json.dumps({"answer": value, "more": {"answer": 1}})
    found = JSON.find(f"So: {written}.")
    if isinstance(value, str):
        assert found == (value.strip() or None)
    else:
        assert value is None if found is None else json.loads(found) == value


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Result = 7\nResult = 8", "8"),
        ("The Result = 8", None),
        ("x" * 200_000 + "\nResult = 8", "8"),
    ],
)
def test_the_last_match_counts(text: str, answer: str | None) -> None:
    assert NUMBER.find(text) == answer


def test_a_match_at_the_end_of_a_cut_off_text_may_go_on() -> None:
    assert NUMBER.close("Result = 12", complete=False) is None
    assert NUMBER.close("Result = 12\n", complete=False) == "12"
    assert NUMBER.close("Result = 12", complete=True) == "12"
    assert extractor_named("regex:[a-z]+").find("it is yes") == "yes"


def test_a_search_that_takes_too_long_finds_nothing() -> None:
    began = time.monotonic()
    assert extractor_named(r"regex:(a|aa)+b$").find("a" * 5000) is None
    assert time.monotonic() - began < 5


@given(continuation=WRITTEN, complete=st.booleans())
@pytest.mark.parametrize("extractor", [BOXED, LINE, TEXT, JSON, NUMBER])
def test_the_text_of_a_forced_answer_holds_that_answer(
    extractor: Extractor, continuation: str, complete: bool
) -> None:
    answer = extractor.close(continuation, complete)
    if answer is not None:
        assert extractor.find(extractor.shown(continuation, answer)) == answer


@pytest.mark.parametrize(
    ("extractor", "text", "answer"),
    [
        (BOXED, r"\boxed{12} and", "12"),
        (BOXED, r"<answer>12</answer>", "12"),
        (BOXED, r"\boxed{12", None),
        (LINE, "Answer: 12\n", "12"),
        (LINE, "Answer: 12\nAnswer: 5", "12"),
        (LINE, "Answer: 12", None),
        (TEXT, "12\n", None),
        (JSON, '{"answer": 12} {"x": {"answer": 5}', "12"),
        (JSON, r'\frac{1}{2} {"answer": 12}', "12"),
        (NUMBER, "Result = 12.", "12"),
        (NUMBER, "Result = 12\nResult = 5", "12"),
        (NUMBER, "Result = 12", None),
        (CODE, "```\nprint(12)\n```", "print(12)"),
        (CODE, "```\nprint(12)\n", None),
    ],
)
def test_in_a_text_that_was_cut_off_only_an_answer_that_has_ended_counts(
    extractor: Extractor, text: str, answer: str | None
) -> None:
    assert extractor.find_cut(text) == answer


def test_an_extractor_that_does_not_say_what_a_cut_off_text_holds_finds_nothing_in_it() -> None:
    assert extractor_named(f"{__name__}:Whole").find_cut("12") is None


def test_an_entry_point_names_an_extractor() -> None:
    spec = f"{__name__}:Shouted"
    found = extractor_named(spec)
    assert found.find(r"\boxed{a}") == "A"
    assert found.spec == spec


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("", "give boxed, answer-line, text"),
        ("boxes", "give boxed, answer-line, text"),
        ("regex:(", "not a regular expression: missing"),
        ("regex:x*", "matches a text without any character"),
        ("json:", "name the field"),
        ("nowhere.at:all", "cannot be loaded: No module named"),
        ("os:nothing", "cannot be loaded"),
        ("os:system", "which is no Extractor"),
        ("os:path", "which is no Extractor"),
        (f"{__name__}:Unfinished", "cannot be loaded: Can't instantiate abstract class"),
    ],
)
def test_an_unknown_extractor_is_refused_with_the_choices(spec: str, told: str) -> None:
    with pytest.raises(ProfileRefused, match=f"extractor is.*{told}"):
        extractor_named(spec)


def test_half_an_emoji_makes_no_answer_that_files_cannot_hold() -> None:
    text = r'{"answer": "\ud83d cat", "more": ["\ude00"]}'
    assert JSON.find(text) == "? cat"
    assert extractor_named("json:more").find(text) == '["?"]'
    assert JSON.shown(r'"\ud83d"', "?") == '{"answer": "?"}'


def test_an_object_with_many_inside_it_is_still_the_outermost() -> None:
    steps = [{"answer": step} for step in range(500)]
    assert JSON.find(f"So {json.dumps({'answer': 7, 'steps': steps})}.") == "7"
    assert JSON.find("\\frac{1}{2} " * 1000 + '{"answer": 8}') == "8"


def test_braces_that_take_too_long_are_no_answer() -> None:
    began = time.process_time()
    assert JSON.find('{"a":' * 20_000 + '{"answer": 8}') is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize("mark", ["_", "*", "** ", "__ "])
def test_a_mark_that_a_model_repeats_takes_no_time(mark: str) -> None:
    began = time.process_time()
    assert LINE.find(f"Answer: {mark * 400_000}\n") is None
    assert LINE.find(f"Answer: {mark * 1000}8{mark[::-1] * 1000}\n") == "8"
    assert time.process_time() - began < 2
