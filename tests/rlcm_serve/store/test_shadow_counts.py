"""Running counts of shadow runs say what counting all of them would say."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, select

from rlcm_serve.monitoring.losses import GRACE
from rlcm_serve.monitoring.records import GivenAnswer
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.solving.shadow.runs import ShadowOutcome
from rlcm_serve.store.answers.monitors import StoredMonitors
from rlcm_serve.store.answers.stored import SHADOW_DEADLINE, StoredAnswers
from rlcm_serve.store.database import Database
from rlcm_serve.store.shadows.counts import SHOWN, ShadowCounts
from rlcm_serve.store.shadows.stored import StoredShadows
from rlcm_serve.store.shadows.table import ShadowRow
from tests.rlcm_serve.monitoring.running.test_betting import CERTIFICATE, GUARANTEES, betting_on
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.store.test_answers import DRAW, patiently

LEVELS = (("c" * 64, 0.1), ("c" * 64, 0.2), ("d" * 64, 0.1))
OUTCOMES = (True, False, None)


def given(number: int, draw: random.Random, now: float) -> GivenAnswer:
    certificate, alpha = draw.choice(LEVELS)
    shadow = ShadowDraw(draw.choice((0.0, 0.5)), draw.random() < 0.7)
    return replace(
        answer(number), certificate=certificate, alpha=alpha, shadow=shadow, started=now, time=now
    )


def counted(database: Database) -> dict[tuple[str, float], dict[str, int]]:
    """The same numbers, by counting every run that is stored."""
    found: dict[tuple[str, float], Counter[str]] = {}
    with database.reading() as session:
        for row in session.scalars(select(ShadowRow).where(ShadowRow.drawn)):
            kinds = found.setdefault((row.certificate, row.alpha), Counter())
            kinds["drawn"] += 1
            if not row.share:
                kinds["dropped"] += 1
            elif row.disagrees is not None:
                kinds["disagree" if row.disagrees else "agree"] += 1
            else:
                kinds["waiting" if row.ended is None else "missing"] += 1
    return {level: {name: kinds[name] for name in SHOWN} for level, kinds in found.items()}


def running(database: Database) -> dict[tuple[str, float], dict[str, int]]:
    with database.reading() as session:
        return ShadowCounts(database).read(session)


@pytest.mark.parametrize("seed", range(2))
def test_counts_are_exact_after_any_draws_outcomes_and_deadlines(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw, clock = random.Random(seed), [1000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    answers, shadows = StoredAnswers(database, DRAW), StoredShadows(database, texts=False)
    known: list[GivenAnswer] = []
    for _ in range(60):
        clock[0] += draw.uniform(0, SHADOW_DEADLINE / 5)
        new = [given(len(known) + n, draw, clock[0]) for n in range(draw.randrange(4))]
        again = draw.sample(known, min(2, len(known)))  # a batch that is written twice
        if new or again:
            answers.add([*new, *again])
        known += new
        for one in draw.sample(known[-8:], min(3, len(known))):  # some of them a second time
            if one.shadow is not None and one.shadow.runs:
                assert shadows.end(ShadowOutcome(one.id, draw.choice(OUTCOMES)))
        if draw.random() < 0.3:
            ShadowCounts(database).expire()
        assert running(database) == counted(database)
    whole = [*counted(database).values()]
    assert all(sum(level[name] for level in whole) for name in SHOWN if name != "waiting")


def test_a_run_without_a_result_at_its_deadline_is_missing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its monitor has counted it so; what comes later changes neither."""
    clock = [1000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    one = replace(given(1, random.Random(1), 1000.0), shadow=ShadowDraw(0.5, drawn=True))
    StoredAnswers(database, DRAW).add([one])
    counts = ShadowCounts(database)
    found = []
    for passed in (SHADOW_DEADLINE + GRACE, SHADOW_DEADLINE + GRACE + 1):
        clock[0] = 1000 + passed
        counts.expire()
        (level,) = running(database).values()
        found.append((level["waiting"], level["missing"]))
    assert found == [(1, 0), (0, 1)]
    before = running(database)
    assert StoredShadows(database, texts=False).end(ShadowOutcome(one.id, True))
    assert running(database) == before


@pytest.mark.parametrize(("late", "found"), [(0.0, "disagree"), (1.0, "missing")])
def test_a_run_that_ends_after_its_deadline_is_missing_though_no_monitor_looked(
    database: Database, monkeypatch: pytest.MonkeyPatch, late: float, found: str
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    one = replace(given(1, random.Random(1), 1000.0), shadow=ShadowDraw(0.5, drawn=True))
    StoredAnswers(database, DRAW).add([one])
    clock[0] += SHADOW_DEADLINE + late
    assert StoredShadows(database, texts=False).end(ShadowOutcome(one.id, True))
    (level,) = running(database).values()
    assert (level["drawn"], level[found]) == (1, 1)
    assert running(database) == counted(database)


def test_deleted_runs_stay_counted(database: Database) -> None:
    draw = random.Random(9)
    answers, shadows = StoredAnswers(database, DRAW), StoredShadows(database, texts=False)
    whole = [given(number, draw, 1000.0) for number in range(60)]
    answers.add(whole)
    for one in whole[::3]:
        if one.shadow is not None and one.shadow.runs:
            assert shadows.end(ShadowOutcome(one.id, draw.choice(OUTCOMES)))
    before = running(database)
    assert StoredMonitors(database).cut(before=1001.0) == 60
    for level, counts in running(database).items():
        missing = before[level]["missing"] + before[level]["waiting"]  # nobody will end them
        assert counts == before[level] | {"missing": missing, "waiting": 0}


def test_replicas_lose_no_count(database: Database, database_url: str) -> None:
    """Several processes draw, end runs, and let deadlines pass, at once."""
    replicas = [Database(database_url) for _ in range(3)]

    def run(at: int) -> None:
        draw, shadows = random.Random(at), StoredShadows(replicas[at], texts=False)
        answers = StoredAnswers(replicas[at], DRAW)
        for number in range(24):
            one = given(1000 * at + number, draw, draw.choice((0.0, 1e12)))
            patiently(answers.add, [one])
            if one.shadow is not None and one.shadow.runs:
                patiently(shadows.end, ShadowOutcome(one.id, draw.choice(OUTCOMES)))
            patiently(ShadowCounts(replicas[at]).expire)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for replica in replicas:
        replica.close()
    assert running(database) == counted(database)


def test_figures_read_runs_of_unread_answers_alone_and_history_no_counts(
    database: Database,
) -> None:
    betting = betting_on(database, shadow_share=0.5)
    one = replace(answer(1), time=time.time(), shadow=ShadowDraw(0.5, drawn=True))
    StoredAnswers(database, DRAW).add([replace(one, certificate=CERTIFICATE.digest)])
    betting.work(lambda: GUARANTEES)
    with database.reading() as session:
        engine = session.connection().engine
    asked: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    figures = betting.figures.read()
    of_figures = len(asked)
    betting.figures.history_rows(1.0)
    event.remove(engine, "before_cursor_execute", note)
    (shadow,) = [one.shadow for one in figures.levels if one.alpha == 0.1]
    assert shadow is not None
    assert (shadow.drawn, shadow.waiting) == (1, 1)
    first, then = asked[:of_figures], asked[of_figures:]
    assert [text for text in first if "rlcm_shadow" in text and "rlcm_shadows" not in text]
    assert not [text for text in first if "rlcm_shadows" in text and "'regret'" not in text]
    assert then
    assert not [text for text in then if "rlcm_shadow" in text]
