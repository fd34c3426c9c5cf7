"""The verdicts on the development pairs: at most 5% of them are wrong, and each is listed."""

import pytest

from rlcm_serve.answers.grader import AnswerGrader
from tests.rlcm_serve.answers.canonical.pairs import Pair, read_pairs

PAIRS = list(read_pairs())
CATEGORIES = list(dict.fromkeys(pair.category for pair in PAIRS))
WRONG = [
    (r"\text{€}100", "€100"),
    ("The triangle is isosceles.", "isosceles"),
    (r"3 \times 4 matrix", "12"),
    (r"5\,\Omega", "5 ohms"),
    (r"5 \mu m", "5"),
    ("1h 30min", "90 minutes"),
    ("Yes, 5", "5"),
    (r"\sigma^2 = 4", "4"),
    ("n! = 120", "120"),
    ("R^2 = 0.9", "0.9"),
    ("1.234.567", "1234567"),
    ("1,23,456", "123456"),
    ("0,5", "0.5"),
    ("5k", "5000"),
    ("x^2 < 4", "-2<x<2"),
    ("2x < 4", "x < 2"),
    (r"\begin{bmatrix} 1 & 0 \\ 0 & 1 \end{bmatrix}", "I"),
    ("12:00 PM", "noon"),
    ("14:30", "2:30 PM"),
    ("can't be determined", "cannot be determined"),
    (r"x = k\pi, k \in \mathbb{Z}", r"x = n\pi, n\in\mathbb{Z}"),
    (r"\frac{5 \text{ cm}}{2}", "2.5 cm"),
    (r"\ln(-x)", r"\ln x"),
    ("first", "1st"),
    (r"7 \text{ cm by } 5 \text{ cm}", "5 cm by 7 cm"),
]
"""Pairs with a wrong verdict, which are known."""


def test_there_are_several_hundred_pairs_of_both_verdicts() -> None:
    assert sum(pair.same for pair in PAIRS) > 1300
    assert sum(not pair.same for pair in PAIRS) > 500
    assert len({pair[2:] for pair in PAIRS}) == len(PAIRS)


def test_few_pairs_are_known_to_be_wrong() -> None:
    for same in (True, False):
        pairs = [pair[2:] for pair in PAIRS if pair.same == same]
        assert sum(pair in WRONG for pair in pairs) <= 0.05 * len(pairs)


@pytest.mark.parametrize("category", CATEGORIES)
def test_pairs_have_the_verdict_of_a_careful_reader(category: str, grader: AnswerGrader) -> None:
    def is_wrong(pair: Pair) -> bool:
        verdicts = {grader.equal(*each) for each in (pair[2:], pair[:1:-1])}
        return verdicts != {pair.same}

    found = [pair[2:] for pair in PAIRS if pair.category == category and is_wrong(pair)]
    assert found == [pair[2:] for pair in PAIRS if pair.category == category and pair[2:] in WRONG]
