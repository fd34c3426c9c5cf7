"""Audited questions as labelled problems for a fresh certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlcm_serve.monitoring.records import Label
from rlcm_serve.store.answers.references import audited_problems
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.caller import ANYONE
from rlcm_serve.store.database import Database
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.test_answers import DRAW


@pytest.fixture
def answers(database: Database) -> StoredAnswers:
    return StoredAnswers(database, DRAW, texts=True)


def asked(number: int, **changes: Any) -> Any:
    return replace(answer(number), question=f"Question {number}?", **changes)


def references(database: Database) -> dict[str, str | None]:
    return {one.id: one.answer for one in audited_problems(database, "default", 0.0)}


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
