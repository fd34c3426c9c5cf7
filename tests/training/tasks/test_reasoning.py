import random
import re
from itertools import pairwise

import pytest

from tests.training.tasks.parsed_text import parsed_steps, worked_sums
from training.tasks.problems import FAMILIES, LEVELS, make_problem
from training.tasks.reasoning import (
    MAX_PASSES,
    NOTICE_SLIP,
    Passage,
    Reasoning,
    write_reasoning,
)

EVERY = [(family, level) for family in FAMILIES for level in LEVELS]
_CLAIM = re.compile(
    r"(?:So I get|^I get|^Now I get|so I keep|^Yes,|I will go with) (-?\d+)"
)  # what a line says the answer is; the last claim of a line stands


def written(family: str, level: int, count: int) -> list[tuple[str, Reasoning]]:
    """Answers and reasoning of random problems."""
    rng = random.Random(f"{family}-{level}-reasoning")
    problems = [make_problem(family, level, rng) for _ in range(count)]
    return [(problem.answer, write_reasoning(problem, rng)) for problem in problems]


def is_work(passage: Passage) -> bool:
    return " is " in passage.text


@pytest.mark.parametrize(("family", "level"), EVERY)
def test_the_candidate_is_what_the_text_last_claimed(family: str, level: int) -> None:
    for _, reasoning in written(family, level, 30):
        claimed = None
        for passage in reasoning.passages:
            if claims := _CLAIM.findall(passage.text):
                claimed = claims[-1]
            assert passage.candidate == claimed, reasoning.text
        assert reasoning.final == claimed


@pytest.mark.parametrize(("family", "level"), EVERY)
def test_every_pass_goes_through_every_step(family: str, level: int) -> None:
    rng = random.Random(level)
    problem = make_problem(family, level, rng)
    reasoning = write_reasoning(problem, rng)
    passes = [passage.text for passage in reasoning.passages if is_work(passage)]
    assert 2 <= len(passes) <= MAX_PASSES
    for text in passes:
        assert parsed_steps(text) == parsed_steps(problem.question)


@pytest.mark.parametrize(("family", "level"), EVERY)
def test_sums_hang_together_and_lead_to_the_claim(family: str, level: int) -> None:
    modulus = FAMILIES[family].modulus
    for _, reasoning in written(family, level, 20):
        for passage, claim in pairwise(reasoning.passages):
            if not is_work(passage):
                continue
            sums = worked_sums(passage.text, modulus)
            for before, after in pairwise(sums):
                assert after.value == (before.value if before.mended else before.result)
                assert after.right or not before.mended, "mended with another slip"
            assert re.search(rf"(?<!\d){sums[-1].result}\b", claim.text), reasoning.text


@pytest.mark.parametrize(("family", "level"), EVERY)
def test_slips_come_at_the_levels_rate(family: str, level: int) -> None:
    """In the first pass, in which none can be a slip made again; within four standard errors."""
    first_passes = [
        worked_sums(next(filter(is_work, reasoning.passages)).text, FAMILIES[family].modulus)
        for _, reasoning in written(family, level, 400)
    ]
    # The sum that mends a slip is no chance to slip.
    mended = sum(step.mended for steps in first_passes for step in steps)
    slips = sum(not step.right for steps in first_passes for step in steps)
    chances = sum(map(len, first_passes)) - mended
    expected = LEVELS[level].slip
    error = (expected * (1 - expected) / chances) ** 0.5
    assert slips / chances == pytest.approx(expected, abs=4 * error)
    if slips > 100:
        assert mended / slips == pytest.approx(NOTICE_SLIP, abs=4 * (0.13 / slips) ** 0.5)


def test_harder_levels_end_wrong_more_often() -> None:
    shares = []
    for level in LEVELS:
        pairs = [pair for family in FAMILIES for pair in written(family, level, 80)]
        shares.append(sum(reasoning.final == answer for answer, reasoning in pairs) / len(pairs))
    assert shares[0] > 0.95
    assert shares[-1] < 0.35
    assert shares == sorted(shares, reverse=True)


def test_the_writer_verifies_corrects_itself_and_gives_up() -> None:
    texts = [reasoning.text for _, reasoning in written("total", 5, 200)]
    assert any("It matches." in text for text in texts)
    assert any("Wait, that does not match." in text for text in texts)
    gave_up = [text for text in texts if "I am not sure" in text]
    assert 0 < len(gave_up) < len(texts)
    assert all(text.rstrip().splitlines()[-1].startswith("I keep getting") for text in gave_up)


def test_the_candidate_changes_where_a_passage_is_complete() -> None:
    reasoning = Reasoning(
        (Passage("Hm.\n", None), Passage("So I get 4.\n", "4"), Passage("No, 5.\n", "5")), "5"
    )
    ends = [4, 16, 23]
    assert len(reasoning.text) == ends[-1]
    assert reasoning.candidate_at(0) is None
    assert reasoning.candidate_at(ends[0]) is None
    assert reasoning.candidate_at(ends[1] - 1) is None, "the claim is not yet whole"
    assert reasoning.candidate_at(ends[1]) == "4"
    assert reasoning.candidate_at(ends[2] - 1) == "4"
    assert reasoning.candidate_at(ends[2]) == "5"


def test_the_same_seed_writes_the_same_text() -> None:
    problem = make_problem("tale", 6, random.Random(0))
    texts = {write_reasoning(problem, random.Random(seed)).text for seed in (1, 1, 2)}
    assert len(texts) == 2
