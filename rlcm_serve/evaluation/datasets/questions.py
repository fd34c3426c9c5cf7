"""How a row becomes a prompt and the reference that its grader reads.

A row has been given the fields' names by then (`Benchmark.columns`). A row that lacks one raises
KeyError, one whose value cannot be used ValueError.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

Fields = Mapping[str, Any]

BOXED = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."
BOXED_LETTER = (
    "\n\nPlease reason step by step, and put the letter of the right option within \\boxed{}."
)


class Asked(NamedTuple):
    """The whole prompt, and the reference answer."""

    problem: str
    answer: str


def plain_question(fields: Fields) -> Asked:
    """The text of `problem` as it stands, as in `rlcm collect`."""
    return Asked(text(fields, "problem"), text(fields, "answer"))


def boxed_question(fields: Fields) -> Asked:
    """A problem of mathematics, with the request for an answer in a box."""
    return Asked(text(fields, "problem") + BOXED, text(fields, "answer"))


def gsm8k_question(fields: Fields) -> Asked:
    """As `boxed_question`; the reference is what follows `####` in the solution."""
    reference = text(fields, "answer").rpartition("####")[2].strip()
    return boxed_question({**fields, "answer": reference})


def olympiad_question(fields: Fields) -> Asked:
    """As `boxed_question`; several answers become one with commas, and the unit is left out.

    The problem's context, where there is one, stands before it.
    """
    given = fields["answer"]
    answers = [given] if isinstance(given, str) else [str(each) for each in given]
    context = fields.get("context") or ""
    problem = f"{context}\n\n{text(fields, 'problem')}".strip()
    return boxed_question({"problem": problem, "answer": ",".join(answers)})


def choice_question(fields: Fields) -> Asked:
    """A question of several options; `answer` is the right one's number from 0, letter or text."""
    options = [str(option).strip() for option in fields["options"]]
    context = str(fields.get("context") or "").strip()
    problem = f"{context}\n\n{text(fields, 'problem')}".strip()
    return _choice(problem, options, _place(fields["answer"], options))


def hidden_choice_question(fields: Fields) -> Asked:
    """One right and three wrong options, in an order that the question's text decides.

    So the order is the same in every run, and on every machine.
    """
    problem = text(fields, "problem").strip()
    right = text(fields, "right").strip()
    options = [right, *(text(fields, f"wrong_{n}").strip() for n in (1, 2, 3))]
    order = list(range(len(options)))
    random.Random(hashlib.sha256(problem.encode()).hexdigest()).shuffle(order)
    return _choice(problem, [options[at] for at in order], order.index(0))


def code_question(fields: Fields) -> Asked:
    """A problem of LiveCodeBench, asked as its harness does; the reference are its tests.

    Those come packed (some are megabytes) and stay so until an answer is graded.
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
        raise ValueError("it has starter code, but its metadata name no func_name to call")
    tests = [fields["public_test_cases"], fields.get("private_test_cases") or "[]"]
    return Asked(
        f"### Question:\n{text(fields, 'problem')}\n\n### Format: {task}\n\n"
        "### Answer: (use the provided format with backticks)\n\n",
        json.dumps({"function": function, "tests": tests}),
    )


def text(fields: Fields, name: str) -> str:
    """The field as text.

    Raises:
        ValueError: it is empty.
    """
    value = fields[name]
    if value is None or not str(value).strip():
        raise ValueError(f"{name!r} is empty")
    return str(value)


def _choice(problem: str, options: Sequence[str], right: int) -> Asked:
    listed = "\n".join(
        f"{letter}) {option}" for letter, option in zip(ascii_uppercase, options, strict=False)
    )
    reference = {"letter": ascii_uppercase[right], "options": list(options)}
    return Asked(f"{problem}\n\n{listed}{BOXED_LETTER}", json.dumps(reference))


def _place(answer: Any, options: Sequence[str]) -> int:
    """The number, from 0, of the option that `answer` names."""
    said = str(answer).strip()
    letters = ascii_uppercase[: len(options)]
    if said.isdecimal() and int(said) < len(options):
        return int(said)
    if len(said) == 1 and said.upper() in letters:
        return letters.index(said.upper())
    if list(options).count(said) == 1:
        return list(options).index(said)
    raise ValueError(
        f"the answer {said!r} is none of the {len(options)} options: give its number from 0, its "
        "letter or its text"
    )
