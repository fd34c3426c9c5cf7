"""Rehearsals in the database, of either kind."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from rlcm_serve.evidence.rehearsal import Replayed
from rlcm_serve.monitoring.records import Label
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.store.answers.draws import draw_of
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.database import Database
from rlcm_serve.store.rehearsals.figures import LevelRehearsed
from rlcm_serve.store.rehearsals.stored import (
    RehearsedAnswer,
    StoredRehearsals,
    latest_answers,
)
from rlcm_serve.store.rehearsals.table import RehearsalRow, RehearsedRow
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.test_answers import ADMIN, DRAW

DIGEST = "d" * 64


@pytest.fixture
def rehearsals(database: Database) -> StoredRehearsals:
    return StoredRehearsals(database)


def test_processes_that_start_one_rehearsal_together_both_succeed(
    rehearsals: StoredRehearsals, database: Database
) -> None:
    """The other process has begun, and its row is not visible yet."""
    failures: list[Exception] = []

    def start() -> None:
        try:
            rehearsals.start(DIGEST, "second")
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    starting = threading.Thread(target=start)
    with database.session() as session:
        session.add(RehearsalRow(certificate=DIGEST, started=1.0, started_by="first"))
        session.flush()
        starting.start()
        starting.join(0.3)
        assert starting.is_alive(), "it waits for the other process"
    starting.join()
    assert failures == []
    assert rehearsals.running() == [DIGEST]
    with database.reading() as session:
        (row,) = session.query(RehearsalRow).all()
        assert (row.started, row.started_by) == (1.0, "first")


def test_a_rehearsal_that_ended_goes_on(rehearsals: StoredRehearsals) -> None:
    rehearsals.start(DIGEST, None)
    rehearsals.stop(DIGEST)
    assert rehearsals.running() == []
    rehearsals.start(DIGEST, None)
    assert rehearsals.running() == [DIGEST]


def replayed(**changes: Any) -> Replayed:
    known: dict[str, Any] = {
        "certificate": DIGEST,
        "alpha": 0.1,
        "tokens": 100,
        "tokens_at_least": 50,
        "undecided": False,
        "answers": True,
        "stop": 50,
        "agrees": None,
    }
    return Replayed(**known | changes)


def store(
    database: Database, levels: Sequence[Replayed], right: Sequence[bool] | None = None
) -> StoredRehearsals:
    """One labelled answer for each level, with what the level would have done."""
    rehearsals, answers = StoredRehearsals(database), StoredAnswers(database, DRAW)
    given = [answer(number) for number in range(len(levels))]
    answers.add(given)
    rehearsals.add(
        [RehearsedAnswer(one.id, True, (level,)) for one, level in zip(given, levels, strict=True)]
    )
    verdicts = [True] * len(given) if right is None else right
    answers.label(
        [Label(one.id, verdict, "boss") for one, verdict in zip(given, verdicts, strict=True)],
        ADMIN,
    )
    return rehearsals


def level_of(rehearsals: StoredRehearsals) -> LevelRehearsed:
    (level,) = rehearsals.levels(DIGEST, [0.1])
    return level


def test_what_was_dropped_for_lack_of_a_place_changes_no_share(database: Database) -> None:
    """A tenth is declined. Half of the answers come under load, and have no comparison."""
    declined, agreed = replayed(answers=False), replayed(agrees=True)
    rehearsals, answers = StoredRehearsals(database), StoredAnswers(database, DRAW)
    given = [answer(number) for number in range(200)]
    answers.add(given)
    for number, one in enumerate(given):
        has_place = number < 100
        compared = agreed if has_place else replayed()
        level = declined if number % 10 == 0 else compared
        rehearsals.add([RehearsedAnswer(one.id, has_place, (level,))])
    answers.label([Label(one.id, True, "boss") for one in given], ADMIN)
    level = level_of(rehearsals)
    assert (level.questions, level.missing) == (200, 0)
    assert (level.lost.of, level.lost.value) == (100, pytest.approx(0.1))
    assert (level.wrong.of, level.wrong.value) == (90, 0)


def test_different_shares_for_audit_change_no_share_of_what_is_lost(database: Database) -> None:
    """A kind that is drawn ten times as often is lost every time, the other one never."""
    rehearsals, answers = StoredRehearsals(database), StoredAnswers(database, DRAW)
    draw = draw_of(database, AuditShares(0.0))
    given = [
        replace(answer(n), audited=draw.draws(answer(n).id, share), audit_share=share)
        for n in range(2000)
        for share in [0.5 if n % 2 else 0.05]
    ]
    answers.add(given)
    rehearsals.add(
        [
            RehearsedAnswer(one.id, one.audited, (replayed(agrees=one.audit_share < 0.1),))
            for one in given
        ]
    )
    drawn = [one for one in given if one.audited]
    assert 450 < len(drawn) < 650
    answers.label([Label(one.id, True, "boss") for one in drawn], ADMIN)
    lost = level_of(rehearsals).lost
    assert 60 < lost.of < 140
    assert lost.value == pytest.approx(0.5, abs=0.25), "it is 0.91 of all that were drawn"


def test_a_question_that_is_asked_again_counts_once(database: Database) -> None:
    """A health probe that is asked 90 times is never lost; the ten other questions are."""
    rehearsals, answers = StoredRehearsals(database), StoredAnswers(database, DRAW)
    texts = ["Are you well?"] * 90 + [f"Question {number}?" for number in range(10)]
    given = [
        replace(answer(number), question_digest=DRAW.question_digest(text.encode()))
        for number, text in enumerate(texts)
    ]
    answers.add(given)
    rehearsals.add(
        [
            RehearsedAnswer(one.id, True, (replayed(agrees=number < 90, tokens=number),))
            for number, one in enumerate(given)
        ]
    )
    answers.label([Label(one.id, True, "boss") for one in given], ADMIN)
    level = level_of(rehearsals)
    assert (level.questions, level.lost.of) == (11, 11)
    assert level.lost.value == pytest.approx(10 / 11)


def test_a_comparison_without_a_result_is_counted_and_spanned(database: Database) -> None:
    levels = [replayed(agrees=True)] * 8 + [replayed()] * 2
    level = level_of(store(database, levels))
    assert level.missing == 2
    assert (level.lost.of, level.lost.value, level.wrong.value) == (10, 0.2, 0.2)
    for figure in (level.lost, level.wrong):
        assert figure.interval is not None
        assert figure.interval[0] == 0, "at best none of them is lost"
        assert figure.interval[1] > 0.4


def test_an_answer_that_differs_from_a_wrong_one_may_be_right(database: Database) -> None:
    """The level is right on all of them, as far as anybody knows."""
    levels = [replayed(agrees=number < 7) for number in range(10)]
    level = level_of(store(database, levels, right=[number < 7 for number in range(10)]))
    assert (level.wrong.of, level.wrong.value) == (10, 0.3)
    assert level.wrong.interval is not None
    assert level.wrong.interval[0] == 0


def test_an_answer_is_replayed_once_it_is_stored(
    rehearsals: StoredRehearsals, database: Database
) -> None:
    one = RehearsedAnswer(answer(1).id, True, (replayed(),))
    assert rehearsals.add([one]) == set()
    StoredAnswers(database, DRAW).add([answer(1)])
    assert rehearsals.add([one]) == {one.id}
    assert rehearsals.add([one]) == {one.id}
    rehearsals.compared(one.id, [(DIGEST, 0.1, True)])
    assert level_of(rehearsals).questions == 1
    with database.reading() as session:
        assert session.scalars(select(RehearsedRow.agrees)).all() == [True]


def test_the_latest_answers_are_read_in_the_order_of_an_index(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/one.db")) as database:
        store(database, [replayed()] * 50)
        query = latest_answers(DIGEST, 0.1).compile(compile_kwargs={"literal_binds": True})
        with database.reading() as session:
            plan = [row[-1] for row in session.execute(text(f"EXPLAIN QUERY PLAN {query}"))]
    assert "rlcm_rehearsed_level (certificate=? AND alpha=?" in plan[0]
    assert not any("TEMP B-TREE" in step for step in plan)
    assert "INTEGER PRIMARY KEY" in plan[1]
