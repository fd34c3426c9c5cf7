import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rlcm_serve.answers.grading.base import Pair
from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.evaluation.grading.cache import Grades, grade_missing
from rlcm_serve.events import OnProgress, ignore_progress


class CountingGrader(ExactGrader):
    """Keeps what it was asked; kills its process, as a power cut does, once it was asked `most`."""

    def __init__(self, most: int = 10**9) -> None:
        self.asked: list[Pair] = []
        self.most = most

    def grade(self, pairs: Sequence[Pair], on_progress: OnProgress = ignore_progress) -> list[bool]:
        self.asked += pairs
        if len(self.asked) > self.most:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().grade(pairs, on_progress)


def pairs(count: int) -> list[Pair]:
    return [(str(n), str(n % 7)) for n in range(count)]


def test_what_is_known_is_not_graded_again(tmp_path: Path) -> None:
    first, second = CountingGrader(), CountingGrader()
    verdicts = grade_missing(first, pairs(200), Grades(tmp_path / "deep" / "grades"))
    assert verdicts == {pair: pair[0] == pair[1] for pair in pairs(200)}
    told: list[tuple[int, int]] = []
    again = grade_missing(
        second, pairs(300), Grades(tmp_path / "deep" / "grades"), lambda *p: told.append(p)
    )
    assert second.asked == pairs(300)[200:]
    assert again == {pair: pair[0] == pair[1] for pair in pairs(300)}
    assert told[0] == (200, 300)
    assert told[-1] == (300, 300)


def test_pairs_that_repeat_are_graded_once(tmp_path: Path) -> None:
    grader = CountingGrader()
    grade_missing(grader, pairs(5) * 3, Grades(tmp_path / "grades"))
    assert grader.asked == pairs(5)


def test_another_grader_answer_or_reference_is_another_verdict(tmp_path: Path) -> None:
    grades = Grades(tmp_path / "grades")
    grades.add("exact 1", {("a", "b"): True})
    assert grades.get("exact 1", ("a", "b")) is True
    for grader, pair in [("exact 2", ("a", "b")), ("exact 1", ("b", "a")), ("exact 1", ("a", "c"))]:
        assert grades.get(grader, pair) is None


def test_a_line_that_a_kill_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "grades"
    Grades(path).add("g", {("a", "a"): True, ("b", "c"): False})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        grades = Grades(path)
        assert grades.get("g", ("b", "c")) is None
        assert grades.get("g", ("a", "a")) in (None, True)
        grades.add("g", {("b", "c"): False})
        assert Grades(path).get("g", ("b", "c")) is False


@pytest.mark.parametrize("most", [1, 100, 150])
def test_a_kill_loses_one_chunk_at_most(tmp_path: Path, most: int) -> None:
    path = tmp_path / "grades"
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.rlcm_serve.evaluation.grading.test_cache import *\n"
        "grade_missing(CountingGrader(int(sys.argv[2])), pairs(200), Grades(Path(sys.argv[1])))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path), str(most)], check=False)
    assert killed.returncode == -signal.SIGKILL
    grader = CountingGrader()
    assert len(grade_missing(grader, pairs(200), Grades(path))) == 200
    assert len(grader.asked) == 200 - most // 64 * 64
