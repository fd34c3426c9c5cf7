"""Shadow runs in the database, of either kind."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rlcm_serve.monitoring.losses import MISSING, RegretLosses
from rlcm_serve.monitoring.records import GivenAnswer, Label
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.shadow.runs import ShadowOutcome
from rlcm_serve.store.answers.figures import FigureStore
from rlcm_serve.store.answers.monitors import StoredMonitors
from rlcm_serve.store.answers.recent import waiting_answers
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.answers.table import WithdrawalRow
from rlcm_serve.store.caller import ANYONE, Caller
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.stored import StoredShadows, Ungraded
from tests.rlcm_serve.monitoring.test_advance import RISK
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.plans import plans_of
from tests.rlcm_serve.store.test_answers import DRAW

REGRET = replace(RISK, risk="regret")


def shadowed(number: int, **changes: object) -> GivenAnswer:
    """An answer under `regret` with a shadow run, given just now."""
    shadow = ShadowDraw(1.0, drawn=True)
    base = replace(answer(number), risk="regret", shadow=shadow, time=time.time())
    return replace(base, **changes)  # type: ignore[arg-type]


def labelled(number: int, reference: str | None = "8", *, trusted: bool = True) -> Label:
    """The answer is wrong."""
    return Label(answer(number).id, False, None, reference, trusted=trusted)


def ended(number: int, text: str | None = "8", *, disagrees: bool | None = True) -> ShadowOutcome:
    return ShadowOutcome(answer(number).id, disagrees, text, 40)


@pytest.fixture
def answers(database: Database) -> StoredAnswers:
    return StoredAnswers(database, DRAW, texts=True)


@pytest.fixture
def shadows(database: Database) -> StoredShadows:
    return StoredShadows(database, texts=True)


def test_a_reference_that_enters_no_test_grades_no_answer(
    answers: StoredAnswers, shadows: StoredShadows
) -> None:
    """Anybody may send one; only a trusted label lets the full budget's answer be graded."""
    answers.add([shadowed(1), shadowed(2)])
    assert shadows.end(ended(1))
    assert shadows.end(ended(2))
    answers.label([labelled(1, trusted=False), labelled(2, trusted=False)], ANYONE)
    answers.label([labelled(1, None), labelled(2)], ANYONE)
    assert [each.id for each in shadows.ungraded(["default"])] == [answer(2).id]


def test_a_label_may_say_later_whether_the_full_budget_is_right(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    """Until then, and at most until its deadline, the answer waits: nothing counts in its place."""
    answers.add([shadowed(1)])
    assert shadows.end(ended(1))
    answers.label([labelled(1, None)], ANYONE)
    ((seen,),) = StoredMonitors(database).unseen([REGRET], 1e9)
    assert RegretLosses().waits(seen, seen.due)
    later = replace(labelled(1, None), full_right=True)
    done = answers.label([later], ANYONE)
    assert (done.labelled, done.corrected, done.unchanged) == (0, 1, 0)
    assert answers.label([later], ANYONE).unchanged == 1
    ((seen,),) = StoredMonitors(database).unseen([REGRET], 1e9)
    assert (RegretLosses().waits(seen, seen.due), RegretLosses().loss(seen)) == (
        False,
        (1.0, False),
    )


def test_any_answer_of_the_full_budget_can_be_stored(
    answers: StoredAnswers, shadows: StoredShadows
) -> None:
    """A model may write half a surrogate pair as an escape in JSON, as in the answer before it."""
    answers.add([shadowed(1, answer="a\x00\ud800"), shadowed(2)])
    assert shadows.end(ended(1, "b\x00\ud800"))
    answers.label([labelled(1)], ANYONE)
    assert [each.answer for each in shadows.ungraded(["default"])] == ["b?"]


def test_the_last_reference_grades_an_answer_of_a_served_profile(
    answers: StoredAnswers, shadows: StoredShadows
) -> None:
    answers.add([shadowed(1), shadowed(2, profile="terse"), shadowed(3), shadowed(4)])
    for number in (1, 2, 3):
        assert shadows.end(ended(number))
    assert shadows.end(ended(4, disagrees=False))
    answers.label([labelled(number) for number in (1, 2, 4)], ANYONE)
    answers.label([Label(answer(1).id, True, None), labelled(1, "9")], ANYONE)
    assert shadows.ungraded(["default"]) == [Ungraded(answer(1).id, "default", "8", "9", None)]
    assert [each.profile for each in shadows.ungraded(["default", "terse"])] == ["default", "terse"]
    assert shadows.ungraded([]) == []


def test_a_corrected_reference_grades_the_full_budgets_answer_anew(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    """Else one reference would judge the given answer, and another one the full budget's."""
    answers.add([shadowed(1)])
    assert shadows.end(ended(1))
    answers.label([labelled(1, "8")], ANYONE)
    (first,) = shadows.ungraded(["default"])
    shadows.grade(first, right=True)
    assert shadows.ungraded(["default"]) == []
    answers.label([labelled(1, "9")], ANYONE)
    (second,) = shadows.ungraded(["default"])
    assert second.reference == "9"
    shadows.grade(first, right=True)  # a process that had looked before
    ((seen,),) = StoredMonitors(database).unseen([REGRET], 1e9)
    assert RegretLosses().waits(seen, seen.due)
    shadows.grade(second, right=False)
    ((seen,),) = StoredMonitors(database).unseen([REGRET], 1e9)
    assert RegretLosses().loss(seen) == (0.0, False)
    answers.label([replace(labelled(1, "7"), full_right=True)], ANYONE)
    ((seen,),) = StoredMonitors(database).unseen([REGRET], 1e9)
    assert RegretLosses().loss(seen) == (1.0, False), "a label may say both"


def test_the_wait_for_what_a_label_left_open_can_end(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    answers.add([shadowed(1), shadowed(2), shadowed(3)])
    for number in (1, 2, 3):
        assert shadows.end(ended(number, disagrees=number != 3))
    known = replace(labelled(2, None), full_right=False)
    answers.label([labelled(1, None), known, labelled(3, None)], ANYONE)
    assert answers.skip([answer(number).id for number in (1, 2, 3)], ANYONE) == 1
    ((seen, *_),) = StoredMonitors(database).unseen([REGRET], 1e9)
    assert not RegretLosses().waits(seen, time.time() + 60)
    assert RegretLosses().loss(seen) == MISSING


def test_what_can_be_graded_is_found_without_a_look_at_every_label(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/rlcm.db")) as database:
        answers, shadows = (
            StoredAnswers(database, DRAW, texts=True),
            StoredShadows(database, texts=True),
        )
        answers.add([shadowed(number) for number in range(300)])
        answers.label([labelled(number) for number in range(300)], ANYONE)
        assert shadows.end(ended(7))
        assert [each.id for each in shadows.ungraded(["default"])] == [answer(7).id]
        (steps,) = plans_of(database, lambda: shadows.ungraded(["default"]), "rlcm_labels")
    assert steps[0] == "SCAN rlcm_shadows USING INDEX rlcm_shadows_ungraded"
    assert not [step for step in steps[1:] if step.startswith("SCAN")]


def unread(number: int, **changes: object) -> GivenAnswer:
    """As `shadowed`, where no answer could be read."""
    kept: dict[str, object] = {"answered": False, "answer": None, "question": "A dial?"}
    return shadowed(number, **kept | {"due": time.time() + 1000 + number} | changes)


def test_an_answer_that_could_not_be_read_waits_if_the_full_budget_has_one(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    stranger = Caller("0" * 8, frozenset())
    answers.add(
        [
            unread(1),
            unread(2),
            unread(3, due=time.time() - 1),
            unread(4, risk="error"),
            unread(5),
            shadowed(6, due=time.time() + 1001.5),
        ]
    )
    for number in (1, 2, 3, 4):
        assert shadows.end(ended(number, disagrees=number != 2))
    count, listed = waiting_answers(database, ANYONE, 10)
    assert (count, [one.row.id for one in listed]) == (2, [answer(1).id, answer(6).id])
    assert (listed[0].full_answer, listed[0].disagrees) == ("8", True)
    assert waiting_answers(database, stranger, 10) == (0, [])
    figures = FigureStore(database, StoredMonitors(database), DRAW).read()
    assert (figures.waiting, figures.oldest is not None) == (2, True)

    known = answers.find([answer(1).id, answer(4).id], ANYONE)
    assert [one.asks_full_right for one in known.values()] == [True, False]
    done = answers.label([labelled(1)], ANYONE)
    assert (done.labelled, done.audited) == (1, 1)
    (ungraded,) = shadows.ungraded(["default"])
    ((seen, *_),) = StoredMonitors(database).unseen([REGRET], 1e12)
    assert RegretLosses().waits(seen, 2.0)
    shadows.grade(ungraded, right=True)
    ((seen, *_),) = StoredMonitors(database).unseen([REGRET], 1e12)
    assert (RegretLosses().waits(seen, 2.0), RegretLosses().loss(seen)) == (False, (1.0, False))
    assert waiting_answers(database, ANYONE, 10)[0] == 1


def test_the_wait_for_an_answer_that_could_not_be_read_can_end(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    answers.add([unread(1), unread(2)])
    for number in (1, 2):
        assert shadows.end(ended(number, None))
    assert answers.skip([answer(1).id], ANYONE) == 1
    full_right = Label(answer(2).id, False, None, None, full_right=True)
    assert answers.label([full_right], ANYONE).labelled == 1
    assert answers.label([full_right], ANYONE).unchanged == 1
    assert waiting_answers(database, ANYONE, 10) == (0, [])
    ((_, seen),) = StoredMonitors(database).unseen([REGRET], 1e12)
    assert RegretLosses().loss(seen) == (1.0, False)


def test_after_a_withdrawal_an_answer_that_waits_is_listed_once(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    answers.add([unread(1, started=5.0), unread(2, started=6.0)])
    assert shadows.end(ended(1))
    assert shadows.end(ended(2, None, disagrees=False))
    with database.session() as session:
        session.add(WithdrawalRow(certificate="c", slot="s", delta=0.1, time=1.0, why="an alarm"))
    count, listed = waiting_answers(database, ANYONE, 10)
    assert (count, [one.row.id for one in listed]) == (2, [answer(1).id, answer(2).id])
