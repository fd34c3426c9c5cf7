"""Grading of full-budget answers, beside the monitors: nothing that a caller sends stops either."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from rlcm_serve.answers.grading.exact import ExactGrader
from rlcm_serve.answers.grading.verdicts import KeyedVerdicts
from rlcm_serve.api.monitoring import shadows
from rlcm_serve.api.monitoring.shadows import GRADING_TRIES, FullAnswerGrading
from rlcm_serve.errors import RequestRefused, WorkerFailed
from rlcm_serve.monitoring.records import EventKind
from rlcm_serve.solving.slots import ServedUnder
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.caller import ANYONE
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.stored import StoredShadows
from rlcm_serve.store.shadows.table import ShadowRow
from tests.rlcm_serve.monitoring.running.test_betting import GUARANTEES, betting_on, fill
from tests.rlcm_serve.scripted_engine import IDENTITY
from tests.rlcm_serve.store.test_answers import DRAW
from tests.rlcm_serve.store.test_shadows import ended, labelled, shadowed

FAILURES = WorkerFailed("the process that compares answers was killed"), ZeroDivisionError("9/0")


class Verdicts(KeyedVerdicts):
    """Compares texts; raises an error for some references, and notes what it was asked."""

    def __init__(self, on: Callable[[str], None]) -> None:
        super().__init__(ExactGrader())
        self.on = on
        self.asked: list[str] = []

    def equal(self, answer: str, other: str) -> bool:
        self.asked.append(other)
        self.on(other)
        return super().equal(answer, other)


@dataclass
class Grading:
    """Answers 1, 2, ... with a reference each, and what grades them."""

    database: Database
    verdicts: Verdicts

    def __post_init__(self) -> None:
        stored = StoredShadows(self.database, texts=True)
        service = SimpleNamespace(guarantees=SimpleNamespace(identities=[IDENTITY]))
        self.grade = FullAnswerGrading(stored, service).grade  # type: ignore[arg-type]

    def add(
        self, *references: str, first: int = 1, profile: str = "default", grader: str | None = None
    ) -> None:
        answers = StoredAnswers(self.database, DRAW, texts=True)
        numbers = range(first, first + len(references))
        under = None if grader is None else ServedUnder("setup", grader)
        answers.add([shadowed(number, profile=profile, under=under) for number in numbers])
        for number in numbers:
            StoredShadows(self.database, texts=True).end(ended(number))
        labels = zip(numbers, references, strict=True)
        answers.label([labelled(number, text) for number, text in labels], ANYONE)

    def found(self) -> list[tuple[bool | None, str | None]]:
        """Whether each full-budget answer is right, and its text."""
        rows = select(ShadowRow.full_right, ShadowRow.full_answer).order_by(ShadowRow.id)
        with self.database.reading() as session:
            return [(right, text) for right, text in session.execute(rows)]


def failing(reference: str) -> None:
    for error in FAILURES:
        if reference == str(error):
            raise error


@pytest.fixture
def grading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grading:
    verdicts = Verdicts(failing)
    monkeypatch.setattr(shadows, "AnswerGrader", lambda niceness: nullcontext(verdicts))
    return Grading(Database(f"sqlite:///{tmp_path}/rlcm.db"), verdicts)


def test_a_reference_that_breaks_its_grader_lets_the_others_pass(grading: Grading) -> None:
    """It is tried again after them, some times, and then nothing waits for it."""
    bad = [str(error) for error in FAILURES]
    grading.add(*bad, "8", "7")
    for number in range(1, GRADING_TRIES + 2):
        grading.grade()
        given_up = number >= GRADING_TRIES
        failed = (None, None if given_up else "8")
        assert grading.found() == [failed, failed, (True, "8"), (False, "8")]
    assert grading.verdicts.asked == [*bad, "8", "7", *bad * (GRADING_TRIES - 1)]


def test_what_failed_comes_after_what_is_new(
    grading: Grading, monkeypatch: pytest.MonkeyPatch
) -> None:
    grading.add(str(FAILURES[0]))
    grading.grade()
    grading.add(str(FAILURES[0]), "8")
    with monkeypatch.context() as patch:
        patch.setattr(shadows, "GRADING_S", -1)  # the time is up at once
        grading.grade()
    grading.grade()
    assert grading.verdicts.asked == [str(FAILURES[0]), "8", str(FAILURES[0])]


def test_a_refused_reference_is_tried_once(grading: Grading) -> None:
    def refuse(reference: str) -> None:
        raise RequestRefused("reference", f"{reference} cannot be read")

    grading.verdicts.on = refuse
    grading.add("8")
    grading.grade()
    grading.grade()
    assert (grading.found(), len(grading.verdicts.asked)) == ([(None, None)], 1)


def test_answers_of_a_profile_that_is_not_served_are_left_to_others(grading: Grading) -> None:
    grading.add("8", profile="terse")
    grading.grade()
    assert grading.found() == [(None, "8")]


def test_answers_of_a_grader_that_is_not_here_are_left_to_others(
    grading: Grading, caplog: pytest.LogCaptureFixture
) -> None:
    """However many they are, the others are graded meanwhile."""
    grading.add(*["8"] * 120, grader="rlcm-math 3 (math-verify 0.9.0)")
    for _ in range(GRADING_TRIES + 1):
        grading.grade()
    assert grading.found() == [(None, "8")] * 120
    grading.add("8", first=200)
    grading.grade()
    assert grading.found().count((True, "8")) == 1
    (said,) = caplog.messages
    assert "left to other processes: its grader was 'rlcm-math 3" in said


def test_monitors_look_before_anything_is_graded(database: Database) -> None:
    betting = betting_on(database)

    def grade() -> None:
        raise ZeroDivisionError

    betting.after = grade
    fill(database, 300, wrong=0.5)
    with pytest.raises(ZeroDivisionError):
        betting.work(lambda: GUARANTEES)
    assert EventKind.RISK_ALARM in [event.what for event in betting.monitors.events()]
