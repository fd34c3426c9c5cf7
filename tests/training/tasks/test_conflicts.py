"""Problems in which two instructions conflict."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter

import pytest

from training.errors import TrainingRefused
from training.tasks.conflicts import make_conflict, sample_conflicts
from training.tasks.problems import FAMILIES, Problem, Split, sample_problems


def lines(problem: Problem) -> list[tuple[str, str]]:
    """Letter and words of every instruction in the question."""
    return re.findall(r"\b([A-Z]) ([^.?]*?\d[^.?]*)\.", problem.question.split(". ", 1)[1])


def answers(problem: Problem) -> list[str]:
    """The answers under the first and under the second instruction of the letter in conflict."""
    kind = FAMILIES[problem.family.removesuffix("_conflict")]
    (twice,) = [at for at, n in Counter(letter for letter, _ in lines(problem)).items() if n == 2]
    found = []
    for chosen in (0, 1):
        value, seen = problem.start, 0
        for letter, words in lines(problem):
            if letter == twice:
                seen += 1
                if seen - 1 != chosen:
                    continue
            size = int(re.search(r"\d+", words).group())  # type: ignore[union-attr]  # it has one
            scene = next(s for s in kind.scenes if problem.question.endswith(s.ask))
            value = kind.move(value, size if words == scene.gain.format(size) else -size)
        found.append(str(value))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_one_letter_has_two_instructions_with_two_answers_and_one_of_them_is_right(
    family: str,
) -> None:
    rng = random.Random(1)
    for _ in range(200):
        problem = make_conflict(family, rng.choice((1, 2, 3)), rng)
        first, second = answers(problem)
        assert first != second
        assert problem.answer in (first, second)
        assert problem.id.startswith(f"{family}_conflict-{problem.level}-")


def test_the_order_does_not_tell_which_instruction_holds() -> None:
    rng = random.Random(2)
    made = [make_conflict("dial", 2, rng) for _ in range(2000)]
    first = sum(problem.answer == answers(problem)[0] for problem in made)
    assert abs(first - 1000) < 4 * (2000 / 4) ** 0.5


def test_a_sample_is_different_problems_of_its_split_and_always_the_same() -> None:
    sample = sample_conflicts(Split.TEST, 40, 3, ("dial", "total"), (1, 2))
    assert len({problem.question for problem in sample}) == 40
    assert {problem.split for problem in sample} == {Split.TEST}
    assert sample == sample_conflicts(Split.TEST, 40, 3, ("dial", "total"), (1, 2))


def test_problems_are_those_of_every_earlier_run() -> None:
    """Runs of a study are compared on the same problems, whenever they were made."""
    assert digest(sample_problems(Split.TRAIN, 300, 0)) == "a317f28dbe796e9f"
    assert digest(sample_problems(Split.TEST, 80, 3, ["dial"], [4])) == "696b4b5420285bbe"
    assert digest(sample_conflicts(Split.TEST, 20, 0, ["total"], [1])) == "253ab670c45310c2"
    several = sample_conflicts(Split.TRAIN, 100, 5, ["dial", "tale"], [1, 2])
    assert digest(several) == "b34ea75351c536ca"


def digest(problems: list[Problem]) -> str:
    """Of ids, questions and answers, in their order."""
    lines = [f"{problem.id} {problem.question} {problem.answer}" for problem in problems]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def test_more_than_there_are_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    one = next(
        p for p in iter(lambda: make_conflict("dial", 1, rng), None) if p.split is Split.TEST
    )
    monkeypatch.setattr("training.tasks.conflicts.make_conflict", lambda *_: one)
    with pytest.raises(TrainingRefused, match=r"found only 1 .*with a conflict"):
        sample_conflicts(Split.TEST, 2, 0, ("dial",), (1,))
