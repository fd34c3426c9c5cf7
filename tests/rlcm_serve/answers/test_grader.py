import asyncio
import itertools
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest

from calibration.policy.voting import NO_ANSWER
from rlcm_serve.answers.grader import GRADER, AnswerGrader
from rlcm_serve.errors import WorkerFailed

ENDLESS = r"9^{9^{9^{9}}}"
FIRST = (r"\max(1,2)", "2")
SECOND = (r"\max(3,4)", "4")
"""Equal answers that have no canonical form."""


@pytest.fixture(scope="module")
def grader() -> Iterator[AnswerGrader]:
    with AnswerGrader() as grader:
        grader.start()
        yield grader


def test_the_grader_names_the_version_it_runs() -> None:
    assert f"rlcm-math 5 (math-verify {version('math-verify')})" == GRADER


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("2/4", r"\frac12"),
        (r"\frac12", "0.5"),
        ("70", "70.0"),
        ("007", "7"),
        ("+7", "7"),
        ("7.", "7"),
        (r"7\text{ cm}", "7"),
        ("$7$", "7"),
        ("1,234", "1234"),
        (r"50\%", "0.5"),
        (r"50\%", "50 percent"),
        (r"\int_0^1 x dx", r"\int_{0}^{1} x dx"),
        ("x=3", "3"),
        (r"\{1,2\}", r"\{2,1\}"),
        (r"\sqrt{8}", r"2\sqrt2"),
        ("x+1", "1+x"),
        ("x<3", r"(-\infty,3)"),
        ("2^{100}", "1267650600228229401496703205376"),
        ("Tuesday", r"\text{tuesday}"),
        ("Tuesday", "tuesday"),
        ("A", r"\text{(A)}"),
    ],
)
def test_equal_values_are_equal_whichever_comes_first(
    grader: AnswerGrader, answer: str, other: str
) -> None:
    assert grader.equal(answer, other)
    assert grader.equal(other, answer)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("7", "8"),
        (r"50\%", "50"),
        ("7", "-7"),
        ("7", "70"),
        ("100000000", "100000001"),
        ("2^{100}", "1267650600228229401496703205377"),
        (r"\frac13", "0.3333"),
        (r"\frac12", r"\frac21"),
        ("(1,2)", "(2,1)"),
        ("(0,1)", "[0,1]"),
        ("x=7", "y=7"),
        ("A", "B"),
        ("Tuesday", "Monday"),
        ("north", "thorn"),
        ("7 or 8", "8"),
        ("7", ""),
        ("7", "?"),
        (r"\frac{1}{0}", "0"),
    ],
)
def test_near_misses_are_not_equal(grader: AnswerGrader, answer: str, other: str) -> None:
    assert not grader.equal(answer, other)
    assert not grader.equal(other, answer)


def test_classes_do_not_depend_on_the_order(grader: AnswerGrader) -> None:
    groups = [["2/4", r"\frac12", "0.5"], ["70", "70.0"], ["8"], [r"x+1", "1+x"]]
    group_of = {text: at for at, texts in enumerate(groups) for text in texts}
    answers = [*group_of, "8", "70"]
    shuffle = random.Random(0).shuffle
    for _ in range(20):
        shuffle(answers)
        classes = grader.classes(answers)
        for (a, of_a), (b, of_b) in itertools.combinations(zip(answers, classes, strict=True), 2):
            assert (of_a == of_b) == (group_of[a] == group_of[b])


@pytest.mark.parametrize(
    ("answers", "groups"),
    [
        (["50", r"50\%", "0.5"], [["50"], [r"50\%", "0.5"]]),
        (["(1,2)", "(2,1)", "1,2"], [["(1,2)"], ["(2,1)"], ["1,2"]]),
        (["5", "5 cm", "5 m"], [["5"], ["5 cm"], ["5 m"]]),
        (["5", "x=5", "y=5", "6"], [["5"], ["x=5"], ["y=5"], ["6"]]),
        (["5", "5 cm", "5.0", "x=5 cm"], [["5", "5 cm", "5.0", "x=5 cm"]]),
    ],
)
def test_no_answer_connects_two_that_differ(
    grader: AnswerGrader, answers: list[str], groups: list[list[str]]
) -> None:
    for order in itertools.permutations(answers):
        classes = grader.classes(order)
        found = {
            frozenset(answer for answer, number in zip(order, classes, strict=True) if number == at)
            for at in classes
        }
        assert found == {frozenset(group) for group in groups}


def test_an_answer_without_a_form_joins_the_class_that_it_equals(grader: AnswerGrader) -> None:
    answers = [r"\int_0^1 2x dx", "1", "2", r"\int_{0}^{1} 2x dx"]
    for order in itertools.permutations(answers):
        number = dict(zip(order, grader.classes(order), strict=True))
        assert number[answers[0]] == number["1"] == number[answers[3]] != number["2"]


def test_classes_are_numbered_by_first_appearance_and_no_answer_is_apart() -> None:
    assert AnswerGrader().classes([None, "9", "7", None, "09"]) == [-1, 0, 1, -1, 0]
    assert AnswerGrader().classes([]) == []


def test_canonical_forms_need_no_worker() -> None:
    grader = AnswerGrader()
    answers = ["7", "7.", "+7", "8", "Friday", "friday.", "Monday", r"\sqrt8", r"2\sqrt2"]
    assert grader.classes(answers) == [0, 0, 0, 1, 2, 2, 3, 4, 4]
    assert grader._process is None


def test_a_comparison_without_end_is_cut_off_and_the_next_one_works() -> None:
    with AnswerGrader(time_limit=2.0) as grader:
        assert grader.equal(*FIRST)
        begin = time.monotonic()
        assert not grader.equal(ENDLESS, r"\sqrt2")
        assert time.monotonic() - begin < 6
        assert grader.equal(ENDLESS, ENDLESS), "the same text is equal, however hard to compute"
        assert grader.equal(*SECOND)


def test_a_hard_comparison_is_tried_once() -> None:
    with AnswerGrader(time_limit=0.5) as grader:
        grader.equal(ENDLESS, r"\sqrt2")
        begin = time.monotonic()
        assert not grader.equal(r"\sqrt2", ENDLESS)
        assert time.monotonic() - begin < 0.05


def test_a_grouping_has_a_time_limit_too() -> None:
    grader = AnswerGrader(grouping_limit=-1.0)
    assert grader.classes([FIRST[0], "2", "7", "14/2", "07"]) == [0, 1, 2, 2, 2]


def test_waiting_for_the_comparisons_of_others_does_not_count_as_time_of_a_grouping() -> None:
    limit = 3.0
    with AnswerGrader(time_limit=10.0, grouping_limit=limit) as grader:
        assert grader.equal(*FIRST)
        with ThreadPoolExecutor() as threads:
            with grader._lock:  # as a comparison of another caller would hold it
                grouping = threads.submit(grader.classes, [*SECOND, r"\max(5,6)", "6"])
                time.sleep(limit + 0.5)
                assert not grouping.done()
            assert grouping.result() == [0, 0, 1, 1]


def test_a_closed_grader_starts_again_when_asked() -> None:
    with AnswerGrader() as grader:
        assert grader.equal(*FIRST)
        grader.close()
        grader.close()
        assert grader.equal(*SECOND)


async def test_the_event_loop_goes_on_during_a_comparison(grader: AnswerGrader) -> None:
    steps = 0

    async def tick() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0.005)
            steps += 1

    ticking = asyncio.create_task(tick())
    assert await grader.classes_async([*SECOND, "7"]) == [0, 0, 1]
    assert await grader.equal_async("Monday", r"\text{Monday}")
    ticking.cancel()
    assert steps > 1


async def test_one_answer_is_compared_with_nothing_and_waits_for_nobody() -> None:
    class Busy(AnswerGrader):
        def _compare(self, answer: str, other: str) -> bool | None:
            raise AssertionError("nothing is to be compared")

    with Busy() as grader:
        grader._threads.shutdown()
        assert await grader.classes_async([r"\int x", None, r"\int x"]) == [0, NO_ANSWER, 0]


def test_a_worker_that_cannot_start_is_an_error_and_no_verdict() -> None:
    class Broken(AnswerGrader):
        def _spawn(self) -> subprocess.Popen[str]:
            pipe = subprocess.PIPE
            command = [sys.executable, "-c", "raise SystemExit(3)"]
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    with Broken() as grader, pytest.raises(WorkerFailed, match="status 3 before it was ready"):
        grader.equal(*FIRST)


class Struck(AnswerGrader):
    """A grader whose first workers get a signal before they can do anything."""

    def __init__(self, signals: list[int], **limits: float) -> None:
        super().__init__(**limits)
        self.signals = signals
        self.workers: list[subprocess.Popen[str]] = []

    def _spawn(self) -> subprocess.Popen[str]:
        self.workers.append(worker := super()._spawn())
        if self.signals:
            worker.send_signal(self.signals.pop(0))
        return worker


def test_a_worker_killed_before_it_is_ready_is_replaced() -> None:
    with Struck([signal.SIGKILL]) as grader:
        assert grader.equal(*FIRST)
        assert len(grader.workers) == 2


def test_a_second_worker_killed_is_an_error() -> None:
    with Struck([signal.SIGKILL] * 2) as grader:
        with pytest.raises(WorkerFailed, match="send the request again"):
            grader.equal(*FIRST)
        assert grader.equal(*FIRST), "no verdict was kept"


def test_a_worker_killed_between_comparisons_is_replaced() -> None:
    with Struck([]) as grader:
        assert grader.equal(*FIRST)
        grader.workers[0].kill()
        grader.workers[0].wait()
        assert grader.equal(*SECOND)


def test_a_comparison_whose_worker_is_killed_is_repeated() -> None:
    with Struck([], time_limit=1.0) as grader, ThreadPoolExecutor(1) as thread:
        assert grader.equal(*FIRST)
        comparing = thread.submit(grader.equal, ENDLESS, r"\sqrt2")
        time.sleep(0.3)
        grader.workers[0].kill()
        assert comparing.result() is False, "the second worker took too long"
        assert len(grader.workers) == 2


def test_a_worker_that_is_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcm_serve.answers.grader._GRACE", 0.5)
    with Struck([], time_limit=2.0) as grader:
        assert grader.equal(*FIRST)
        grader.workers[0].send_signal(signal.SIGSTOP)
        assert grader.equal(*SECOND)
        assert grader.workers[0].poll() == -signal.SIGKILL


def test_a_grader_that_is_closed_during_a_comparison_starts_no_worker() -> None:
    with Struck([]) as grader, ThreadPoolExecutor(1) as thread:
        assert grader.equal(*FIRST)
        comparing = thread.submit(grader.equal, ENDLESS, r"\sqrt2")
        time.sleep(0.3)
        grader.close()
        with pytest.raises(WorkerFailed):
            comparing.result()
        assert len(grader.workers) == 1


def test_comparisons_that_wait_for_their_turn_do_not_hold_up_a_close() -> None:
    with Struck([]) as grader, ThreadPoolExecutor(4) as threads:
        assert grader.equal(*FIRST)
        comparing = [threads.submit(grader.equal, ENDLESS, rf"\sqrt{one}") for one in range(2, 6)]
        time.sleep(0.3)
        grader.close()
        for comparison in comparing:
            with pytest.raises(WorkerFailed):
                comparison.result()
        assert len(grader.workers) == 1


def test_files_in_the_working_directory_do_not_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "math_verify.py").write_text("raise SystemExit('the wrong math_verify')")
    monkeypatch.chdir(tmp_path)
    with AnswerGrader() as grader:
        assert grader.equal(*FIRST)
