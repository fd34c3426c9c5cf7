"""Turns a row into a prompt and the reference for its grader.

The columns of a row are already renamed to fields (`Benchmark.columns`). A missing field raises
KeyError, a value that cannot be used ValueError.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

from rlcm_serve.recording.problems import BOXED, BOXED_LETTER

Fields = Mapping[str, Any]


class PreparedProblem(NamedTuple):
    """The whole prompt and the reference answer."""

    problem: str
    answer: str


def plain_question(fields: Fields) -> PreparedProblem:
    """The text of `problem` without changes, as in `rlcm collect`."""
    return PreparedProblem(text(fields, "problem"), text(fields, "answer"))


def boxed_question(fields: Fields) -> PreparedProblem:
    """A problem of mathematics, with a request for an answer in a box."""
    return PreparedProblem(text(fields, "problem") + BOXED, text(fields, "answer"))


def gsm8k_question(fields: Fields) -> PreparedProblem:
    """As `boxed_question`; the reference is the text after `####` in the solution."""
    reference = text(fields, "answer").rpartition("####")[2].strip()
    return boxed_question({**fields, "answer": reference})


def olympiad_question(fields: Fields) -> PreparedProblem:
    """As `boxed_question`; several answers are joined by commas, and the unit is left out.

    The context, if there is one, comes before the problem.
    """
    answer = fields["answer"]
    answers = [answer] if isinstance(answer, str) else [str(each) for each in answer]
    context = fields.get("context") or ""
    problem = f"{context}\n\n{text(fields, 'problem')}".strip()
    return boxed_question({"problem": problem, "answer": ",".join(answers)})


def choice_question(fields: Fields) -> PreparedProblem:
    """A multiple-choice question; `answer` is the right option's number from 0, letter or text.

    `options` are a list, or a JSON list as text. An answer that is a number, and not text, is the
    option's number and nothing else.

    Raises:
        ValueError: the options are no list of at most 26 texts, or the answer names none or two of
            them.
    """
    options = _options(fields["options"])
    context = str(fields.get("context") or "").strip()
    problem = f"{context}\n\n{text(fields, 'problem')}".strip()
    return _choice(problem, options, _place(fields["answer"], options))


def hidden_choice_question(fields: Fields) -> PreparedProblem:
    """One right and three wrong options, in an order that depends only on the question's text.

    So the order is the same in every run and on every machine.
    """
    problem = text(fields, "problem").strip()
    right = text(fields, "right").strip()
    options = [right, *(text(fields, f"wrong_{n}").strip() for n in (1, 2, 3))]
    order = list(range(len(options)))
    random.Random(hashlib.sha256(problem.encode()).hexdigest()).shuffle(order)
    return _choice(problem, [options[at] for at in order], order.index(0))


def code_question(fields: Fields) -> PreparedProblem:
    """A problem of LiveCodeBench with the prompt of its harness; the reference holds its tests.

    The tests, some of them megabytes, stay packed until an answer is graded.
    """
    starter = fields.get("starter_code") or ""
    if starter:
        task = (
            "You will use the following starter code to write the solution to the problem and "
            f"enclose your code within delimiters.\n```python\n{starter}\n```"
        )
    else:
        task = (
            "Read the inputs from stdin solve the problem and write the answer to stdout (do not "
            "directly test on the sample inputs). Enclose your code within delimiters as follows."
            "\n```python\n# YOUR CODE HERE\n```"
        )
    metadata = fields.get("metadata") or "{}"
    function = (json.loads(metadata) if isinstance(metadata, str) else metadata).get("func_name")
    if starter and not function:
        raise ValueError("it has starter code, but its metadata have no func_name to call")
    tests = [fields["public_test_cases"], fields.get("private_test_cases") or "[]"]
    return PreparedProblem(
        f"### Question:\n{text(fields, 'problem')}\n\n### Format: {task}\n\n"
        "### Answer: (use the provided format with backticks)\n\n",
        json.dumps({"function": function, "tests": tests}),
    )


def text(fields: Fields, name: str) -> str:
    """The field as text.

    Raises:
        ValueError: it is empty, or NaN as in a data frame.
    """
    value = fields[name]
    if value is None or value != value or not str(value).strip():
        raise ValueError(f"{name!r} is empty")
    return str(value)


def _choice(problem: str, options: Sequence[str], right: int) -> PreparedProblem:
    listed = "\n".join(
        f"{letter}) {option}" for letter, option in zip(ascii_uppercase, options, strict=False)
    )
    reference = {"letter": ascii_uppercase[right], "options": list(options)}
    return PreparedProblem(f"{problem}\n\n{listed}{BOXED_LETTER}", json.dumps(reference))


def _options(value: Any) -> list[str]:
    """The texts of the options, each of which has a letter; numbers in a text stay as written."""
    listed = value
    if isinstance(value, str):
        try:
            listed = json.loads(value, parse_int=str, parse_float=str)
        except ValueError:
            listed = None
    if not isinstance(listed, list | tuple) or not all(
        isinstance(option, str | int | float) for option in listed
    ):
        raise ValueError(
            f"the options {str(value)[:80]!r} are not a list of texts: give a list, or as text a "
            'JSON list such as ["red", "blue"]'
        )
    if len(listed) > len(ascii_uppercase):
        raise ValueError(
            f"it has {len(listed)} options, but each gets one of {len(ascii_uppercase)} letters: "
            "leave some out, or ask without options"
        )
    return [str(option).strip() for option in listed]


def _place(answer: Any, options: Sequence[str]) -> int:
    """The number, from 0, of the option that `answer` names."""
    label = str(answer).strip()
    letters = ascii_uppercase[: len(options)]
    places = set[int]()
    if label.isdecimal() and int(label) < len(options):
        places.add(int(label))
    if type(answer) is not int:
        if len(label) == 1 and label.upper() in letters:
            places.add(letters.index(label.upper()))
        places.update(at for at, option in enumerate(options) if option == label)
    if len(places) > 1:
        named = " or ".join(letters[at] for at in sorted(places))
        raise ValueError(
            f"the answer {label!r} may mean option {named}: give the option's letter or its number "
            "from 0, whichever is not the text of another option"
        )
    if not places:
        raise ValueError(
            f"the answer {label!r} is not one of the {len(options)} options: give its number "
            "from 0, its letter or its text"
        )
    return places.pop()
