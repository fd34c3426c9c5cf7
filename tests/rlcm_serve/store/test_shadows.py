"""Shadow runs in the database, of either kind."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rlcm_serve.monitoring.losses import RegretLosses
from rlcm_serve.monitoring.records import GivenAnswer, Label
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.shadow.runs import ShadowOutcome
from rlcm_serve.store.answers.monitors import StoredMonitors
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.caller import ANYONE
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


def test_a_reference_that_enters_no_test_is_not_waited_for(
    database: Database, answers: StoredAnswers, shadows: StoredShadows
) -> None:
    """Anybody may send one; only a trusted label lets the full budget's answer be graded."""
    answers.add([shadowed(1), shadowed(2)])
    assert shadows.end(ended(1))
    assert shadows.end(ended(2))
    answers.label([labelled(1, trusted=False), labelled(2, trusted=False)], ANYONE)
    answers.label([labelled(1, None), labelled(2)], ANYONE)
    ((one, two),) = StoredMonitors(database).unseen([REGRET], 1e9)
    losses = RegretLosses()
    assert (losses.waits(one, 2.0), losses.waits(two, 2.0)) == (False, True)
    assert [each.id for each in shadows.ungraded(["default"])] == [answer(2).id]


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
