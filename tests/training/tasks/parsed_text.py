"""Reads questions and reasoning back from their text, without the code that wrote them."""

import re
from dataclasses import dataclass

UP = ("up", "add", "get on", "go in", "are put up")
DOWN = ("down", "take", "get off", "come out", "are taken")
_STEP = re.compile(
    rf"\b([A-Z]) (?:({'|'.join(UP + DOWN)}) (\d+)|(\d+) ({'|'.join(UP + DOWN)}))(?=[.:])"
)
_WORKED = re.compile(r"(-?\d+) (up|down|plus|minus) (\d+) is (-?\d+)\.( Wait, )?")


def parsed_steps(question: str) -> list[tuple[str, int]]:
    """(letter, signed amount) of each step of a question, or of a pass of reasoning."""
    found = []
    for letter, verb, size, size_first, verb_last in _STEP.findall(question):
        amount = int(size or size_first)
        found.append((letter, amount if (verb or verb_last) in UP else -amount))
    return found


def solve(question: str) -> int:
    """The answer: the first number of the question, moved by its steps."""
    first = re.search(r"\d+", question)
    assert first is not None
    value = int(first.group()) + sum(amount for _, amount in parsed_steps(question))
    return value % 10 if "dial" in question else value


@dataclass(frozen=True)
class Worked:
    """One sum in a line of reasoning, and whether it is right."""

    value: int
    result: int
    right: bool
    mended: bool  # a slip that was noticed: the sum is repeated


def worked_sums(line: str, modulus: int | None) -> list[Worked]:
    sums = []
    for value, sign, size, result, wait in _WORKED.findall(line):
        amount = int(size) if sign in ("up", "plus") else -int(size)
        right = int(value) + amount
        right = right % modulus if modulus else right
        sums.append(Worked(int(value), int(result), int(result) == right, bool(wait)))
    return sums
