"""Answers and labels in the database, of either kind."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from rlcm_serve.errors import DatabaseBusy, DatabaseRefused
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.records import GivenAnswer, Label
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.store.answers.recent import waiting_answers
from rlcm_serve.store.answers.stored import AT_ONCE, MOST_LABELS, StoredAnswers, _last_labels
from rlcm_serve.store.answers.table import AnswerRow, LabelRow
from rlcm_serve.store.caller import ANYONE, Caller, Scope
from rlcm_serve.store.database import Database
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.plans import plans_of

ONE, TWO = (Caller(name, frozenset({Scope.SOLVE})) for name in ("one", "two"))
ADMIN = Caller("boss", frozenset({Scope.ADMIN}))
LABELLER = Caller("team", frozenset({Scope.LABEL}))
DRAW = AuditDraw(b"s" * 32, AuditShares(1.0))


def of_key(number: int, key_id: str | None = "one", **changes: object) -> GivenAnswer:
    return replace(answer(number), key_id=key_id, **changes)  # type: ignore[arg-type]


def label(number: int, right: bool, by: str | None = "one") -> Label:
    return Label(answer(number).id, right, by)


def patiently(work: Any, *arguments: Any) -> None:
    """Stores, although others do: SQLite lets no writer wait for ever, so it tries again."""
    while True:
        with suppress(DatabaseRefused):
            work(*arguments)
            return


@pytest.fixture
def answers(database: Database) -> StoredAnswers:
    return StoredAnswers(database, DRAW)


def test_an_answer_is_stored_once(answers: StoredAnswers, database: Database) -> None:
    answers.add([of_key(1), of_key(2)])
    answers.add([of_key(2, confidence=0.1), of_key(3)])
    with database.reading() as session:
        rows = session.scalars(select(AnswerRow).order_by(AnswerRow.sequence)).all()
    assert [row.id for row in rows] == [answer(number).id for number in (1, 2, 3)]
    assert rows[1].confidence == 0.9


def test_texts_are_stored_only_if_asked(database: Database) -> None:
    whole = of_key(1, question="A dial \x00 shows \ud800 3.", kind="a\x00b")
    StoredAnswers(database, DRAW).add([whole])
    StoredAnswers(database, DRAW, texts=True).add([replace(whole, id="other")])
    with database.reading() as session:
        without, with_texts = session.scalars(select(AnswerRow).order_by(AnswerRow.sequence))
    assert (without.question, without.answer, without.kind) == (None, None, "ab")
    assert without.answer_digest == DRAW.digest("7")
    assert (with_texts.question, with_texts.answer) == ("A dial  shows ? 3.", "7")


def test_the_last_label_is_shown_and_every_change_is_kept(
    answers: StoredAnswers, database: Database
) -> None:
    answers.add([of_key(1), of_key(2)])
    first = answers.label([label(1, True), label(2, True), label(1, False)], ONE)
    assert (first.labelled, first.corrected, first.unchanged, first.audited) == (2, 1, 0, 2)
    again = answers.label([label(1, False), label(2, False, by="boss")], ADMIN)
    assert (again.labelled, again.corrected, again.unchanged, again.audited) == (0, 1, 1, 0)
    with database.reading() as session:
        shown = session.execute(select(AnswerRow.id, AnswerRow.right)).all()
        kept = session.scalars(select(LabelRow).order_by(LabelRow.number)).all()
    assert dict(map(tuple, shown)) == {answer(1).id: False, answer(2).id: False}
    assert [(row.sequence, row.right, row.key_id) for row in kept] == [
        (1, True, "one"),
        (2, True, "one"),
        (1, False, "one"),
        (2, False, "boss"),
    ]


def test_answers_of_others_look_like_unknown_ones(answers: StoredAnswers) -> None:
    answers.add([of_key(1), of_key(2, None)])
    ids = [answer(1).id, answer(2).id, answer(3).id]
    assert set(answers.find(ids, ONE)) == {ids[0]}
    assert set(answers.find(ids, TWO)) == set()
    assert set(answers.find(ids, ADMIN)) == set(answers.find(ids, ANYONE)) == set(ids[:2])
    done = answers.label([label(1, True), label(2, True), label(3, True)], TWO)
    assert done.unknown == ids
    assert done.labelled == 0


def test_what_waits_is_audited_answered_unlabelled_and_in_time(
    answers: StoredAnswers, database: Database
) -> None:
    answers.add(
        [
            of_key(1),
            of_key(2, "two"),
            of_key(3, audited=False),
            of_key(4, answered=False, answer=None),
            of_key(5, due=1.0),
            of_key(6),
        ]
    )
    assert waits(database, ADMIN) == (3, [1, 2, 6])
    assert waits(database, ONE) == (2, [1, 6])
    assert waits(database, ADMIN, limit=1) == (3, [1])
    late = answers.label([label(1, True), label(5, True), label(3, True)], ADMIN)
    assert (late.labelled, late.audited) == (3, 1)
    assert waits(database, ONE) == (1, [6])


def waits(database: Database, caller: Caller, limit: int = 10) -> tuple[int, list[int]]:
    count, oldest = waiting_answers(database, caller, limit)
    return count, [int(one.row.id.removeprefix("chatcmpl-")) for one in oldest]


def test_answers_of_replicas_have_the_order_of_their_commits(
    database: Database, database_url: str
) -> None:
    """A reader that has seen a number never meets a smaller one later."""
    replicas = [Database(database_url) for _ in range(4)]
    over = threading.Event()
    late: list[int] = []

    def watch() -> None:
        seen: set[int] = set()
        while not over.is_set():
            with database.reading() as session:
                now = set(session.scalars(select(AnswerRow.sequence)))
            late.extend(one for one in now - seen if seen and one < max(seen))
            seen = now

    def write(at: int) -> None:
        stored = StoredAnswers(replicas[at], DRAW)
        for number in range(40):
            patiently(stored.add, [of_key(1000 * at + number)])

    watcher = threading.Thread(target=watch)
    watcher.start()
    writers = [threading.Thread(target=write, args=(at,)) for at in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    watcher.join()
    for one in replicas:
        one.close()
    with database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM rlcm_answers")) == 160
    assert late == []


def test_labels_that_are_not_trusted_are_shown_until_a_trusted_one_comes(
    answers: StoredAnswers, database: Database
) -> None:
    answers.add([of_key(1), of_key(2)])
    first = answers.label([replace(label(1, False), trusted=False)], ONE)
    assert (first.labelled, first.audited) == (1, 0)
    assert waits(database, ONE) == (1, [2])  # it has said what it knows
    assert waits(database, ADMIN) == waits(database, LABELLER) == (2, [1, 2])
    done = answers.label([label(1, True)], LABELLER)
    assert (done.labelled, done.audited) == (1, 1)
    again = answers.label([replace(label(1, True), trusted=False)], ONE)
    assert (again.labelled, again.corrected) == (0, 1)
    with database.reading() as session:
        (row, _) = session.scalars(select(AnswerRow).order_by(AnswerRow.sequence))
        kept = session.scalars(select(LabelRow).order_by(LabelRow.number)).all()
    assert (row.right, row.reported) == (True, True)
    assert [(one.right, one.trusted) for one in kept] == [
        (False, False),
        (True, True),
        (True, False),
    ]


def test_what_was_stored_of_many_labels_is_said_if_the_rest_cannot_be(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = StoredAnswers(database, DRAW)
    answers.add([of_key(number) for number in range(AT_ONCE + 1)])
    labels = [label(number, True) for number in range(AT_ONCE + 1)]
    whole, parts = database.session, iter(range(2))

    def busy_at_last() -> AbstractContextManager[Session]:
        if next(parts):
            raise DatabaseBusy("locked", "nothing was stored")
        return whole()

    monkeypatch.setattr(database, "session", busy_at_last)
    with pytest.raises(DatabaseBusy) as busy:
        answers.label(labels, ONE)
    assert f"{AT_ONCE} of {AT_ONCE + 1} labels were stored" in busy.value.public
    monkeypatch.undo()
    again = answers.label(labels, ONE)
    assert (again.unchanged, again.labelled) == (AT_ONCE, 1)


def test_an_answer_takes_a_limited_number_of_labels(
    answers: StoredAnswers, database: Database
) -> None:
    """Whoever asked cannot use up the labels of those who are trusted."""
    answers.add([of_key(1), of_key(2)])
    changes = [replace(label(1, bool(n % 2)), trusted=False) for n in range(MOST_LABELS + 1)]
    done = answers.label(changes, ONE)
    assert (done.labelled, done.corrected) == (1, MOST_LABELS - 1)
    assert done.refused == [answer(1).id]
    same = answers.label([replace(label(1, True), trusted=False)], ONE)
    assert (same.unchanged, same.refused) == (1, []), "it says what is known"
    assert answers.label([label(1, True), label(2, False)], ADMIN).labelled == 2
    assert answers.label([label(1, False)], ADMIN).corrected == 1
    with database.reading() as session:
        row = session.scalars(select(AnswerRow).order_by(AnswerRow.sequence)).first()
        kept = session.scalar(text("SELECT count(*) FROM rlcm_labels WHERE sequence = 1"))
    assert row is not None
    assert (row.reported, row.right, kept) == (True, False, MOST_LABELS + 2)


def test_only_the_last_labels_of_an_answer_are_read(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/rlcm.db")) as database:
        answers = StoredAnswers(database, DRAW)
        answers.add([of_key(1)])
        with database.reading() as session:
            rows = session.scalars(select(AnswerRow)).all()
            (steps,) = plans_of(database, lambda: _last_labels(session, rows), "rlcm_labels")
    assert [step for step in steps if "LabelRow" in step or "rlcm_labels" in step] == [
        "SEARCH rlcm_labels USING COVERING INDEX rlcm_labels_last (sequence=?)",
        "SEARCH rlcm_labels USING INTEGER PRIMARY KEY (rowid=?)",
    ]
