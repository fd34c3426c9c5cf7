from collections.abc import Iterator

import pytest

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.grading.code import CodeGrader
from rlcm_serve.evaluation.grading.sandbox import Limits
from tests.rlcm_serve.evaluation.grading.packing import reference

READS = reference([("1 2\n", "3\n")], [("40 2\n", "42\n"), ("-1 1\n", "0\n")])
CALLED = reference([("[1, 2]", "3")], [("[40, 2]", "42")], function="total")
RIGHT = "print(sum(map(int, input().split())))"
METHOD = "class Solution:\n    def total(self, a: List[int]) -> int:\n        return sum(a)"


@pytest.fixture(scope="module")
def grader() -> Iterator[CodeGrader]:
    with CodeGrader(Limits(cpu=2, wall=4.0)) as grader:
        yield grader


@pytest.mark.slow
def test_a_program_is_right_if_it_passes_every_test(grader: CodeGrader) -> None:
    pairs = [
        (RIGHT, READS),
        ("print(3)", READS),  # the public test alone
        ("print(abs(sum(map(int, input().split()))))\nprint()", READS),
        ("print(sum(map(int, input().split())) + 1e-9)", READS),
        ("while True: pass", READS),
        ("x = (", READS),
        (METHOD, CALLED),
        ("def total(a): return sum(a)", CALLED),
        ("def total(a): return 3", CALLED),
        (RIGHT, CALLED),
        (METHOD, READS),
        (RIGHT, READS),
    ]
    told: list[tuple[int, int]] = []
    verdicts = grader.grade(pairs, lambda *progress: told.append(progress))
    expected = [True, False, True, False, False, False, True, True, False, False, False, True]
    assert verdicts == expected
    assert told == [(done, 11) for done in range(1, 12)]


def test_it_is_named_after_what_decides_a_verdict(grader: CodeGrader) -> None:
    assert "2 s and 2 GiB, Python 3." in grader.name
    assert CodeGrader().name != grader.name


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("Here:\n```python\nprint(1)\n```\n", "print(1)"),
        ("```\na = 1\n```\nBetter:\n```py\nb = 2\n\nprint(b)\n```", "b = 2\n\nprint(b)"),
        ("```python\nprint('''a ``` b''')\n```", "print('''a ``` b''')"),
        ("1. So:\n   ```python\n   if a:\n       b()\n\n   c()\n   ```\n", "if a:\n    b()\n\nc()"),
        ("- So:\n\t```\n\ta = 1\n\t```", "a = 1"),
        ('```\na = """\n  \n"""\n```', 'a = """\n  \n"""'),
        ("```python\nprint(1)", None),
        ("```python\n```", None),
        ("print(1)", None),
    ],
)
def test_the_last_fenced_block_is_the_program(
    grader: CodeGrader, text: str, program: str | None
) -> None:
    assert grader.extractor.find(text) == program


def test_a_forced_program_ends_at_its_fence(grader: CodeGrader) -> None:
    assert grader.extractor.opening.endswith("```python\n")
    assert grader.extractor.close("print(1)\n```\nIt prints 1.") == "print(1)"
    assert grader.extractor.close("  print(1)\n  ```") == "print(1)"
    assert grader.extractor.close("print(1)\n") is None
    assert grader.extractor.close("```") is None


def test_programs_are_the_same_if_their_texts_are(grader: CodeGrader) -> None:
    assert grader.classes_of_all([["a = 1  \n", None, "a = 1", "a=1"]]) == [[0, NO_ANSWER, 0, 1]]


def test_a_reference_without_tests_is_refused(grader: CodeGrader) -> None:
    grader.check_reference(READS)
    with pytest.raises(RequestRefused):
        grader.check_reference("{}")
