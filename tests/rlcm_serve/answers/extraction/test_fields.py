"""What a field of a JSON object says: LaTeX in it, its numbers, and its other values."""

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcm_serve.answers.extraction import extractor_named
from rlcm_serve.answers.extraction.escapes import COMMANDS

JSON = extractor_named("json:answer")
LATEX = st.lists(
    st.sampled_from(
        [
            *[
                "\\",
                '"',
                "n",
                "nu",
                "ne",
                "mid",
                "u",
                "t",
                "to",
                "an",
                "\n",
                "\t",
                "\b",
                "\f",
                "\r",
            ],
            *["begin", "frac", " ", "{", "}", "1", "u000a", "/", "é"],
        ]
    ),
    max_size=12,
).map("".join)
"""Texts in which escapes and commands are hard to tell apart."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        (r"\rho", r"\rho"),
        (r"\nabla f", r"\nabla f"),
        (r"\beta", r"\beta"),
        (r"\theta_1", r"\theta_1"),
        (r"3\times 10^5", r"3\times 10^5"),
        (r"\frac12\text{ cm}", r"\frac12\text{ cm}"),
        (r"x \neq 2, y\ne3", r"x \neq 2, y\ne3"),
        (r"\\frac{1}{2}", r"\frac{1}{2}"),
        (r"\\\\frac{1}{2}", r"\\frac{1}{2}"),
        (r"\frac{\\pi}{2}", r"\frac{\pi}{2}"),
        (r"\frac{\sqrt{3}}{2}", r"\frac{\sqrt{3}}{2}"),
        (r"\pi", r"\pi"),
        (r"50\%, \$5, 2\,\text{m}, \{1\}", r"50\%, \$5, 2\,\text{m}, \{1\}"),
        (r"\underline{u}", r"\underline{u}"),
        (r"\left(\frac12, 1\right)", r"\left(\frac12, 1\right)"),
        (r"C:\dir", r"C:\dir"),
        (r"caf\u00e9 \u03c0", "café π"),
        (r"\"a\" \/ b", '"a" / b'),
    ],
)
def test_latex_is_read_as_it_was_meant(written: str, meant: str) -> None:
    assert JSON.find(f'So: {{"why": "x", "answer": "{written}"}}.') == meant
    assert JSON.close(f'"{written}"}}') == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"line one\nnext", "line one\nnext"),
        (r"1.\nTherefore 2.\nNo", "1.\nTherefore 2.\nNo"),
        (r"a\tb", "a\tb"),
        (r"name\tvalue\r\nx\t5", "name\tvalue\r\nx\t5"),
        (r"\nnuclear\nnothing\nnever\tthen", "nuclear\nnothing\nnever\tthen"),
        (r"one\nless\nmid\nparallel\nexists", "one\nless\nmid\nparallel\nexists"),
        (r"a\\nb", r"a\nb"),
        (r"a\\\nb", "a\\\nb"),
        (r"a\fb\bc", "a\fb\bc"),
    ],
)
def test_the_end_of_a_line_stays_one(written: str, meant: str) -> None:
    assert JSON.find(f'{{"answer": "{written}"}}') == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"x \nless y", r"x \nless y"),
        (r"$AB$ \nparallel $CD$", r"$AB$ \nparallel $CD$"),
        (r"$\nexists x$", r"$\nexists x$"),
        (r"\nmid", r"\nmid"),
    ],
)
def test_a_command_that_may_be_a_line_and_a_word_is_one_after_a_blank(
    written: str, meant: str
) -> None:
    assert JSON.find(f'{{"answer": "{written}"}}') == meant


@pytest.mark.parametrize(
    "written",
    [
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        r"\begin{pmatrix} 1 \\ 2 \\end{pmatrix}",
        r"\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}",
        r"\begin{pmatrix} 1 \\\\ 2 \end{pmatrix}",
    ],
)
def test_the_rows_of_a_matrix_stay_apart(written: str) -> None:
    assert JSON.find(f'{{"answer": "{written}"}}') == r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"


def test_rows_end_with_the_text_that_has_them() -> None:
    text = r'{"why": "\begin{pmatrix} \frac12 \\x \\\frac13 \end{pmatrix}", "answer": "2\\ m"}'
    assert JSON.find(text) == r"2\ m"
    assert extractor_named("json:why").find(text) == (
        r"\begin{pmatrix} \frac12 \\x \\\frac13 \end{pmatrix}"
    )


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_known_command_is_read(command: str) -> None:
    assert command[0] in "bfnrt"
    assert JSON.find(f'{{"answer": "x \\{command} y"}}') == f"x \\{command} y"
    assert JSON.find(f'{{"answer": "x\\\\{command} y"}}') == f"x\\{command} y"


@pytest.mark.parametrize(
    "number",
    [
        *["8", "-8", "-0", "0.50", "1e400", "-1E+400", "1e-400", "1.5E3"],
        *["0.10000000000000000001", "12345678901234567.5", "123456789012345678901", "9" * 5000],
    ],
)
def test_a_number_is_read_as_it_is_written(number: str) -> None:
    assert JSON.find(f'{{"answer": {number}}}') == number
    assert JSON.close(f"{number}}}") == number
    assert JSON.close(f"{number}", complete=False) is None
    assert (
        JSON.find(f'{{"answer": [{number}, {{"x": {number}}}]}}') == f'[{number},{{"x":{number}}}]'
    )


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("true", "true"),
        ("false", "false"),
        ("null", None),
        ("[ ]", "[]"),
        ("{ }", "{}"),
        (
            '[null, true, "é\\n", {"a": [], "b": {"c": 2}}]',
            '[null,true,"é\\n",{"a":[],"b":{"c":2}}]',
        ),
        ('{"x": "\\frac12"}', '{"x":"\\\\frac12"}'),
        ("NaN", None),
        ("-Infinity", None),
    ],
)
def test_any_other_value_is_its_json_without_blanks(value: str, answer: str | None) -> None:
    assert JSON.find(f'{{"answer": {value}}}') == answer
    assert JSON.close(f"{value}}}") == answer


def test_the_last_object_counts_whatever_its_backslashes() -> None:
    assert JSON.find(r'{"answer": 7}, no: {"answer": "\sqrt{2}"}') == r"\sqrt{2}"
    assert JSON.find_cut(r'{"answer": "\frac{1}{2}"} {"answer": "\fra') == r"\frac{1}{2}"
    assert JSON.close(r'"\fra', complete=False) is None


@given(text=LATEX | st.text())
def test_a_forced_text_is_found_again(text: str) -> None:
    escaped = "".join(f"\\u{ord(one):04x}" if one < "\U00010000" else one for one in text)
    answer = JSON.close(f'"{escaped}"')
    assert answer == (text.encode("utf-8", "replace").decode().strip() or None)
    if answer is not None:
        shown = JSON.shown(f'"{escaped}"', answer)
        assert JSON.find(shown) == answer
        assert json.loads(shown)["answer"].strip() == answer


@given(text=LATEX)
def test_a_text_in_json_loses_no_character_but_those_of_escapes(text: str) -> None:
    found = JSON.find(json.dumps({"answer": f"x{text}x"}))
    assert found is not None
    letters = [one for one in found if one not in "\\bfnrt\n\t\b\f\r"]
    assert letters == [one for one in f"x{text}x" if one not in "\\bfnrt\n\t\b\f\r"]


def test_the_name_changes_with_what_is_read() -> None:
    assert JSON.name == "json:answer 2"


@pytest.mark.parametrize(
    "piece",
    ["\\", '"', '\\"', "\\n", "\\begin\\\\", "\\frac", '{"a":"\\begin \\\\ "}', "a", "[1.5,"],
)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    times = []
    for count in (4_000, 16_000, 64_000):
        began = time.process_time()
        JSON.find(f'{{"answer": "{piece * count}"}} {piece * count}')
        JSON.close(f'"{piece * count}"')
        times.append(time.process_time() - began)
    assert all(later < 16 * max(earlier, 0.1) for earlier, later in pairwise(times))
