"""What is decided at sight is decided as math-verify would."""

import itertools
import string
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.plain import Text, equal_if_plain, open_pairs, plain, tidy

DIGITS = "0001234599"


@pytest.fixture(scope="module")
def grader() -> Iterator[AnswerGrader]:
    with AnswerGrader() as grader:
        yield grader


def number(whole: int, places: int) -> st.SearchStrategy[str]:
    """Numbers in all ways of writing, many of them alike."""
    sign, digits = st.sampled_from(["", "-", "+"]), st.text(DIGITS, max_size=whole)
    fraction = st.text(DIGITS, min_size=1, max_size=places)
    return st.builds("{}{}.{}".format, sign, digits, fraction) | st.builds(
        "{}{}".format, sign, st.text(DIGITS, min_size=1, max_size=30)
    )


names = st.sampled_from(string.ascii_letters) | st.text("eEiIaAst", min_size=4, max_size=6)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two plain answers, often one in two ways of writing, or nearly so."""
    one = draw(number(9, 6) | names)
    if draw(st.booleans()):
        return one, draw(number(9, 6) | names)
    bare = one.lstrip("+-")
    alike = [one + "0", one + ".0", "0" + bare, bare, "-" + bare, bare.partition(".")[0] or "0"]
    return one, draw(st.sampled_from([*alike, one[:-1] + draw(st.sampled_from("0123456789"))]))


def in_the_worker(grader: AnswerGrader, one: str, other: str) -> bool:
    return grader._compared(*sorted((tidy(one), tidy(other))))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, derandomize=True)
@given(pairs())
def test_numbers_and_names_are_decided_as_by_the_worker(
    grader: AnswerGrader, pair: tuple[str, str]
) -> None:
    if all(len(text) >= 4 and text.isalpha() for text in pair):
        return  # math-verify takes words for products: to it, `north` is `thorn`
    seen = equal_if_plain(*pair)
    if seen is not None:
        assert seen == in_the_worker(grader, *pair), pair


def test_letters_are_decided_as_by_the_worker_all_of_them(grader: AnswerGrader) -> None:
    decided = 0
    for pair in itertools.combinations(string.ascii_letters, 2):
        seen = equal_if_plain(*pair)
        if seen is not None:
            decided += 1
            assert seen == in_the_worker(grader, *pair), pair
    assert decided == 48 * 47 / 2, "all but e and i"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("0.5", ".50", True),
        ("70", "70.0", True),
        ("-0.0", "0", True),
        ("+1.25", "01.250", True),
        ("0.5", "-0.5", False),
        ("0.100001", "0.1", False),
        ("A", "a.", True),
        ("A", "B", False),
        ("A", "7", False),
    ],
)
def test_plain_answers_need_no_worker(one: str, other: str, equal: bool) -> None:
    assert equal_if_plain(one, other) is equal


@pytest.mark.parametrize(
    "text",
    [
        "e",
        "E",
        "i",
        "sin",
        "0.1234567",
        "1234567890.5",
        "5%",
        "1,000",
        "1e5",
        r"\frac12",
        "",
        "0x1",
    ],
)
def test_what_is_not_plain(text: str) -> None:
    assert plain(tidy(text)) is None


def test_a_decimal_and_a_word_take_mathematics(grader: AnswerGrader) -> None:
    assert equal_if_plain("54.59815", "eeee") is None
    assert grader.equal("54.59815", "eeee"), "e to the power of four"


def test_plain_answers_leave_no_pairs_however_many_there_are() -> None:
    texts = [Text.read(str(each)) for each in range(100_000)]
    assert not any(open_pairs(texts))
    hard = Text.read(r"\sqrt2")
    assert len(list(open_pairs([*texts[:50], hard]))) == 50


def test_every_way_of_writing_is_compared_for_itself(grader: AnswerGrader) -> None:
    assert not grader.equal("3", "2.9999999")
    assert grader.equal("3.0", "2.9999999")
    assert grader.classes(["3", "3.0", "2.9999999"]) == [0, 0, 0]
    assert grader.classes(["2.9999999", "3"]) == [0, 1]
