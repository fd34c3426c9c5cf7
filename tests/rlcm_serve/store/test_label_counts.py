"""Running counts of labels say what counting all answers would say."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import select

from rlcm_serve.monitoring.records import GivenAnswer, Label
from rlcm_serve.store.answers.counts import NO_LEVEL, SHOWN, LabelCounts
from rlcm_serve.store.answers.monitors import StoredMonitors
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.answers.table import AnswerRow
from rlcm_serve.store.caller import ANYONE
from rlcm_serve.store.database import Database
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.test_answers import DRAW, patiently

LEVELS = (("c" * 64, 0.1), ("c" * 64, 0.2), ("d" * 64, 0.1), (None, None))
SECONDS = 40.0


def given(number: int, draw: random.Random, now: float) -> GivenAnswer:
    certificate, alpha = draw.choice(LEVELS)
    return replace(
        answer(number),
        certificate=certificate,
        alpha=alpha,
        audited=draw.random() < 0.7,
        answered=draw.random() < 0.8,
        time=now,
        due=now + draw.uniform(-5, SECONDS),  # one may be stored after its deadline
    )


def counted(database: Database, now: float) -> dict[tuple[str, float], dict[str, int]]:
    """The same numbers, by counting every answer that is stored."""
    found: dict[tuple[str, float], Counter[str]] = {}
    with database.reading() as session:
        for row in session.scalars(select(AnswerRow)):
            level = NO_LEVEL if row.certificate is None else (row.certificate, row.alpha or 0)
            kinds = found.setdefault(level, Counter())
            if row.audited and row.answered:
                kinds["audited"] += 1
                late = row.labelled is not None and row.labelled > row.due
                kinds["expired"] += late or (row.labelled is None and row.due < now)
                kinds["waiting"] += row.labelled is None and row.due >= now
            shown = row.reported if row.right is None else row.right
            if shown is not None:
                other = "" if row.audited and row.right is not None else "others_"
                kinds[other + ("right" if shown else "wrong")] += 1
    return {level: {name: kinds[name] for name in SHOWN} for level, kinds in found.items()}


def running(database: Database, now: float) -> dict[tuple[str, float], dict[str, int]]:
    with database.reading() as session:
        return LabelCounts(database).read(session, now)


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_exact_after_any_answers_labels_corrections_and_deadlines(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw, clock = random.Random(seed), [1000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    stored, counts = StoredAnswers(database, DRAW), LabelCounts(database)
    known: list[GivenAnswer] = []
    for _ in range(60):
        clock[0] += draw.uniform(0, 4)
        new = [given(len(known) + n, draw, clock[0]) for n in range(draw.randrange(4))]
        again = draw.sample(known, min(2, len(known)))  # a batch that is written twice
        if new or again:
            stored.add([*new, *again])
        known += new
        can = [one for one in known if one.answered]
        labels = [
            Label(one.id, draw.random() < 0.5, None, trusted=draw.random() < 0.6)
            for one in draw.sample(can, min(3, len(can)))
        ]
        stored.label(labels, ANYONE)
        if draw.random() < 0.3:
            counts.expire()
        expected = counted(database, clock[0])
        found = running(database, clock[0])
        assert {level: found.get(level, dict.fromkeys(SHOWN, 0)) for level in expected} == expected


def test_deleted_answers_stay_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, clock = random.Random(9), [1000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    stored, monitors = StoredAnswers(database, DRAW), StoredMonitors(database)
    whole = [replace(given(n, draw, 1000.0), answered=True) for n in range(60)]
    stored.add(whole)
    stored.label([Label(one.id, True, None) for one in whole[::3]], ANYONE)
    clock[0] = 1000 + 2 * SECONDS
    before = running(database, clock[0])
    clock[0] = 1000 + SECONDS / 2
    monitors.counts.expire()
    assert monitors.cut(before=1001.0) == 60  # some of them before their deadline
    clock[0] = 1000 + 2 * SECONDS
    assert running(database, clock[0]) == before


def test_replicas_lose_no_count(database: Database, database_url: str) -> None:
    """Several processes store, label, and let deadlines pass, at once."""
    replicas = [Database(database_url) for _ in range(3)]

    def run(at: int) -> None:
        draw, stored = random.Random(at), StoredAnswers(replicas[at], DRAW)
        mine = [
            replace(given(1000 * at + n, draw, 0.0), answered=True, due=1e12) for n in range(24)
        ]
        for one in mine:
            patiently(stored.add, [one])
            patiently(stored.label, [Label(one.id, draw.random() < 0.5, None)], ANYONE)
            patiently(LabelCounts(replicas[at]).expire)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for replica in replicas:
        replica.close()
    assert running(database, 1e11) == counted(database, 1e11)
