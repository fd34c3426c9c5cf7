"""Audited questions as labelled problems for a fresh certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from rlcm_serve.errors import RequestRefused
from rlcm_serve.monitoring.records import Label
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.solving.slots import ServedUnder
from rlcm_serve.store.answers.counts import LabelCounts
from rlcm_serve.store.answers.draws import draw_of
from rlcm_serve.store.answers.references import audited_problems
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.answers.table import AnswerRow, WithdrawalRow
from rlcm_serve.store.caller import ANYONE
from rlcm_serve.store.database import Database
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.test_answers import ADMIN, DRAW, ONE, waits

SETUP = "5" * 64


@pytest.fixture
def answers(database: Database) -> StoredAnswers:
    return StoredAnswers(database, DRAW, texts=True)


def asked(number: int, **changes: Any) -> Any:
    return replace(answer(number), question=f"Question {number}?", **changes)


def references(database: Database) -> dict[str, str | None]:
    return {one.id: one.answer for one in audited_problems(database, ["default"], SETUP, 0.0)}


@pytest.mark.parametrize(
    ("labels", "reference", "done"),
    [
        ([(True, None), (True, "5")], "5", (1, 1, 0)),
        ([(False, "9"), (False, "6")], "6", (1, 1, 0)),
        ([(False, "9"), (True, None)], None, (1, 1, 0)),
        ([(False, "9"), (True, None), (True, "9")], "9", (1, 2, 0)),
        ([(False, "9"), (False, "9"), (False, None)], "9", (1, 0, 2)),
    ],
)
def test_the_reference_is_that_of_the_last_label_which_changed_something(
    answers: StoredAnswers,
    database: Database,
    labels: list[tuple[bool, str | None]],
    reference: str | None,
    done: tuple[int, int, int],
) -> None:
    """In one request, and in a request each."""
    id_ = answer(1).id
    whole = [Label(id_, right, None, said) for right, said in labels]
    answers.add([asked(1), asked(2)])
    first = answers.label(whole, ANYONE)
    assert (first.labelled, first.corrected, first.unchanged) == done
    for one in whole:
        answers.label([replace(one, id=answer(2).id)], ANYONE)
    wanted = {} if reference is None else {answer(n).id: reference for n in (1, 2)}
    assert references(database) == wanted


def test_references_of_labels_that_are_not_trusted_do_not_count(
    answers: StoredAnswers, database: Database
) -> None:
    answers.add([asked(1)])
    answers.label([Label(answer(1).id, True, None, "7")], ANYONE)
    answers.label([Label(answer(1).id, True, "one", "8", trusted=False)], ANYONE)
    assert references(database) == {answer(1).id: "7"}


def test_a_reference_that_is_not_stored_changes_nothing(database: Database) -> None:
    answers = StoredAnswers(database, DRAW)
    answers.add([asked(1)])
    done = answers.label([Label(answer(1).id, True, None, said) for said in ("7", "8")], ANYONE)
    assert (done.labelled, done.corrected, done.unchanged) == (1, 0, 1)


def test_where_shares_differ_the_sample_is_thinned_to_the_smallest(database: Database) -> None:
    """Half of the questions are of a kind that is audited twice as often."""
    often, seldom = 0.5, 0.25
    draw = draw_of(database, AuditShares(seldom))
    answers = StoredAnswers(database, draw, texts=True)
    whole = [
        asked(
            number,
            kind="x" if number % 2 else None,
            audit_share=share,
            audited=draw.draws(answer(number).id, share),
        )
        for number in range(2000)
        for share in [often if number % 2 else seldom]
    ]
    answers.add(whole)
    answers.label([Label(one.id, True, None, "7") for one in whole], ANYONE)
    found = audited_problems(database, ["default"], SETUP, 0.0)
    of_kind = sum(one.kind == "x" for one in found)
    assert {one.id for one in found} == {one.id for one in whole if draw.draws(one.id, seldom)}
    assert 0.44 < of_kind / len(found) < 0.56
    assert sum(one.audited for one in whole if one.kind) > 1.5 * of_kind


def test_a_share_of_zero_leaves_its_questions_out_and_thins_nothing(
    answers: StoredAnswers, database: Database
) -> None:
    answers.add([asked(1), asked(2, audited=False, audit_share=0.0)])
    answers.label([Label(answer(1).id, True, None, "7")], ANYONE)
    assert set(references(database)) == {answer(1).id}


def test_a_question_that_is_asked_often_is_not_drawn_more_often(database: Database) -> None:
    """Of 600 questions, 100 are asked 40 times each."""
    share = 0.2
    draw = draw_of(database, AuditShares(share))
    answers = StoredAnswers(database, draw, texts=True)
    often = [f"Often {number}?" for number in range(100) for _ in range(40)]
    once = [f"Once {number}?" for number in range(500)]
    whole = [
        replace(
            answer(number),
            question=text,
            question_digest=draw.question_digest(text.encode()),
            audit_share=share,
            audited=draw.draws(answer(number).id, share),
        )
        for number, text in enumerate([*often, *once])
    ]
    answers.add(whole)
    answers.label([Label(one.id, True, None, "7") for one in whole], ANYONE)
    found = audited_problems(database, ["default"], SETUP, 0.0)
    of_often = sum(one.problem.startswith("Often") for one in found)
    assert 80 < len(found) < 160
    assert 8 <= of_often <= 36, "of 100, each drawn with probability .2"


def test_the_first_ask_is_the_one_that_was_asked_first(
    answers: StoredAnswers, database: Database
) -> None:
    """Two run side by side, and the second one ends first."""
    digest = DRAW.question_digest(b"Question 1?")
    first, second = (asked(number, question_digest=digest) for number in (1, 2))
    answers.add([replace(second, question=first.question, started=first.started + 1), first])
    answers.label([Label(one.id, True, None, "7") for one in (first, second)], ANYONE)
    assert set(references(database)) == {first.id}


def test_a_conversation_that_no_certificate_covers_is_left_out(
    answers: StoredAnswers, database: Database
) -> None:
    """Its last turn alone would be another question."""
    declined = asked(3, answered=False, answer=None, departs=True)
    answers.add([asked(1), asked(2, departs=True), declined, asked(4)])
    whole = [Label(answer(number).id, True, None, "7") for number in (1, 2, 4)]
    answers.label(whole, ANYONE)
    assert set(references(database)) == {answer(1).id, answer(4).id}


def test_declined_questions_need_a_reference_too(
    answers: StoredAnswers, database: Database
) -> None:
    """They are harder than the others. One that came last may still wait for whoever labels."""
    declined = {"answered": False, "answer": None}
    answers.add([asked(1, **declined), asked(2), asked(3, **declined), asked(4, audited=False)])
    answers.label([Label(answer(2).id, True, None, "7")], ANYONE)
    with pytest.raises(RequestRefused, match=r"1 audited questions .* declined .*GET /audit"):
        references(database)
    done = answers.label([Label(answer(1).id, False, None, said) for said in "889"], ANYONE)
    assert (done.labelled, done.corrected, done.unchanged, done.audited) == (1, 1, 1, 0)
    assert references(database) == {answer(1).id: "9", answer(2).id: "7"}
    with database.reading() as session:
        row = session.scalars(select(AnswerRow).where(AnswerRow.id == answer(1).id)).one()
        assert (row.right, row.labelled is None) == (None, False)
        (counts,) = LabelCounts(database).read(session, database.now(session)).values()
    assert (counts["audited"], counts["right"], counts["wrong"]) == (1, 1, 0)


def test_declined_questions_wait_for_a_reference_after_a_withdrawal(
    answers: StoredAnswers, database: Database
) -> None:
    declined = {"answered": False, "answer": None, "due": 1.0}
    answers.add([asked(1, started=5.0, **declined), asked(2, started=15.0, **declined), asked(3)])
    assert waits(database, ADMIN) == (1, [3])
    with database.session() as session:
        session.add(WithdrawalRow(certificate="c", slot="s", delta=0.1, time=10.0, why="an alarm"))
    assert waits(database, ADMIN) == (2, [3, 2])
    assert waits(database, ADMIN, limit=1) == (2, [3])
    assert waits(database, ONE) == (0, [])
    answers.label([Label(answer(2).id, False, None, "8")], ANYONE)
    assert waits(database, ADMIN) == (1, [3])


def test_questions_to_another_model_on_the_same_database_are_left_out(
    answers: StoredAnswers, database: Database
) -> None:
    """Profiles of two models may have one name; rows of older releases do not say their setup."""
    setups = SETUP, "6" * 64, None, SETUP, None
    profiles = "default", "default", "default", "renamed", "another"
    answers.add(
        [
            asked(number, under=setup and ServedUnder(setup, "exact"), profile=profile)
            for number, (setup, profile) in enumerate(zip(setups, profiles, strict=True))
        ]
    )
    labels = [Label(answer(number).id, True, None, "5", None) for number in range(len(setups))]
    answers.label(labels, ANYONE)
    assert set(references(database)) == {answer(0).id, answer(2).id, answer(3).id}
