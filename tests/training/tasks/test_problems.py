import random

import pytest

from tests.training.tasks.parsed_text import parsed_steps, solve
from training.errors import TrainingRefused
from training.tasks.problems import (
    FAMILIES,
    LEVELS,
    Problem,
    Split,
    make_problem,
    problem_stream,
    sample_problems,
    split_of,
)

EVERY = [(family, level) for family in FAMILIES for level in LEVELS]


def some(family: str, level: int, count: int = 60) -> list[Problem]:
    rng = random.Random(f"{family}-{level}")
    return [make_problem(family, level, rng) for _ in range(count)]


@pytest.mark.parametrize(("family", "level"), EVERY)
def test_the_answer_is_what_the_question_says(family: str, level: int) -> None:
    for problem in some(family, level):
        assert problem.answer == str(solve(problem.question)), problem.question
        output = parsed_steps(problem.question)
        assert output == [(step.letter, step.amount) for step in problem.steps]
        assert len(output) == LEVELS[level].steps


@pytest.mark.parametrize(("family", "level"), EVERY)
def test_the_value_stays_in_the_familys_range(family: str, level: int) -> None:
    kind = FAMILIES[family]
    for problem in some(family, level):
        value = problem.start
        for step in problem.steps:
            assert 1 <= step.size <= 9
            value = kind.move(value, step.amount)
            assert value in kind.values


def test_every_story_is_told() -> None:
    openings = {problem.question.split()[1] for problem in some("tale", 3)}
    assert openings == {"bus", "jar", "shelf"}


def test_a_dial_wraps_and_a_total_does_not() -> None:
    assert FAMILIES["dial"].move(8, 5) == 3
    assert FAMILIES["dial"].move(2, -5) == 7
    assert FAMILIES["total"].move(98, 5) == 103


@pytest.mark.parametrize(
    ("question", "split"),
    [
        (
            "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?",
            Split.ORDER,
        ),
        ("Start at 50. A add 8. B take 9. What is the total?", Split.TRAIN),
        (
            "A bus has 7 people. A 2 get on. B 1 get off. How many people are on the bus?",
            Split.ORDER,
        ),
        ("A dial shows 3. A up 1. B up 1. What does it show now?", Split.TEST),
        ("A dial shows 5. A up 1. B up 1. What does it show now?", Split.CALIBRATION),
    ],
)
def test_a_questions_split_never_changes(question: str, split: Split) -> None:
    # A published certificate rests on these: whoever changes them leaks test problems.
    assert split_of(question) == split


def test_splits_have_their_shares() -> None:
    splits = [split_of(f"question {number}") for number in range(20_000)]
    for split, share in zip(Split, (0.6, 0.1, 0.1, 0.1, 0.1), strict=True):
        assert splits.count(split) / len(splits) == pytest.approx(share, abs=0.01)


def test_no_problem_is_in_two_splits() -> None:
    sampled = {split: sample_problems(split, 150, seed=0, levels=[1, 2]) for split in Split}
    for split, problems in sampled.items():
        assert all(problem.split is split for problem in problems)
    questions = [problem.question for problems in sampled.values() for problem in problems]
    assert len(set(questions)) == len(questions)


def test_sampled_problems_differ_and_cover_everything() -> None:
    problems = sample_problems(Split.VALIDATION, 300, seed=4)
    assert len({problem.question for problem in problems}) == 300
    assert len({problem.id for problem in problems}) == 300
    assert {(problem.family, problem.level) for problem in problems} == set(EVERY)


def test_a_seed_gives_the_same_problems_and_another_seed_others() -> None:
    first = sample_problems(Split.TEST, 20, seed=1)
    assert first == sample_problems(Split.TEST, 20, seed=1)
    assert not {p.id for p in first} & {p.id for p in sample_problems(Split.TEST, 20, seed=2)}


def test_only_the_families_and_levels_that_were_asked_for() -> None:
    problems = sample_problems(Split.TEST, 30, seed=0, families=["tale"], levels=[2, 5])
    assert {(problem.family, problem.level) for problem in problems} == {("tale", 2), ("tale", 5)}


def test_no_problem_asked_for_is_no_problem() -> None:
    assert sample_problems(Split.TEST, 0, seed=0) == []


def test_more_problems_than_there_are_is_refused() -> None:
    with pytest.raises(TrainingRefused, match=r"found only 3\d\d different problems.*'dial'"):
        sample_problems(Split.TEST, 400, seed=0, families=["dial"], levels=[1])


def test_a_stream_takes_families_and_levels_in_turn() -> None:
    stream = problem_stream(Split.TRAIN, random.Random(0))
    problems = [next(stream) for _ in range(2 * len(EVERY))]
    turns = [(problem.family, problem.level) for problem in problems]
    assert turns[: len(EVERY)] == turns[len(EVERY) :]
    assert set(turns) == set(EVERY)
    assert all(problem.split is Split.TRAIN for problem in problems)


def test_an_id_names_family_level_and_text() -> None:
    problem = some("dial", 1, count=1)[0]
    assert problem.id.startswith("dial-1-")
    assert problem.id != some("dial", 1, count=2)[1].id
