"""The process that runs the monitors, on a database of either kind."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, insert, select, text, update

from calibration import ExitPolicy
from calibration.certificate.report_data import ReportData, ReportLevel, report_data_path
from calibration.monitoring.reference import ReferenceCounts
from rlcm_serve.engine.model_files import EMBEDDED_MODEL
from rlcm_serve.errors import NotReady
from rlcm_serve.monitoring.audit import AuditDraw
from rlcm_serve.monitoring.losses import GRACE, SeenAnswer
from rlcm_serve.monitoring.records import (
    Action,
    EventKind,
    GivenAnswer,
    Hook,
    Label,
    MonitorKind,
)
from rlcm_serve.monitoring.running import betting as betting_module
from rlcm_serve.monitoring.running.betting import Betting
from rlcm_serve.monitoring.running.live import LiveMonitoring
from rlcm_serve.settings import Settings
from rlcm_serve.settings.shares import AuditShares
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.guarantees import Guarantees, find_certificates
from rlcm_serve.solving.shadow.draw import ShadowDraw
from rlcm_serve.store.answers.monitors import Step
from rlcm_serve.store.answers.stored import StoredAnswers
from rlcm_serve.store.answers.table import AnswerRow, BettingRow, HistoryRow, MonitorRow
from rlcm_serve.store.answers.turn import LEASE, MonitorsTurn
from rlcm_serve.store.answers.withdrawals import withdraw, withdrawn
from rlcm_serve.store.caller import ANYONE, Caller, Scope
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from tests.rlcm_serve.monitoring.test_writer import answer
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate
from tests.rlcm_serve.store.plans import plans_of

CERTIFICATE = certificate({0.1: ExitPolicy(lambda_high=0.9), 0.2: ExitPolicy(lambda_high=0.8)})
DRAW = AuditDraw(b"s" * 32, AuditShares(1.0))
GUARANTEES = Guarantees([IDENTITY], [CERTIFICATE])


def given(number: int, alpha: float = 0.1) -> GivenAnswer:
    audited = random.Random(number).random() < 0.5
    return replace(
        answer(number),
        certificate=CERTIFICATE.digest,
        alpha=alpha,
        audited=audited,
        audit_share=0.5,
        confidence=random.Random(-number).random(),
    )


def betting_on(database: Database, **settings: object) -> Betting:
    chosen = Settings(answers_days=1e6, **settings)  # type: ignore[arg-type]
    return Betting(database, chosen, DRAW, CertificateStore(database))


def fill(database: Database, answers: int, wrong: float) -> None:
    """Stores answers, and the label of each; `wrong` is the share of wrong ones."""
    stored = StoredAnswers(database, DRAW)
    whole = [given(number) for number in range(answers)]
    stored.add(whole)
    draw = random.Random(answers)
    stored.label([Label(one.id, draw.random() >= wrong, None) for one in whole], ANYONE)


def states(database: Database) -> dict[tuple[float, str], tuple[int, str]]:
    with database.reading() as session:
        rows = session.scalars(select(MonitorRow))
        return {(row.alpha, row.what): (row.sequence, row.state) for row in rows}


@pytest.fixture
def betting(database: Database) -> Betting:
    return betting_on(database)


def test_each_level_has_its_monitors_and_only_its_own_answers(
    betting: Betting, database: Database
) -> None:
    fill(database, 40, wrong=0.05)
    StoredAnswers(database, DRAW).add([given(1000, 0.2), replace(given(1001), certificate=None)])
    assert betting.work(lambda: GUARANTEES)
    found = {key: json.loads(state) for key, (_, state) in states(database).items()}
    assert set(found) == {(alpha, what) for alpha in (0.1, 0.2) for what in ("risk", "drift")}
    assert found[0.1, "drift"]["questions"] == 40
    assert found[0.2, "drift"]["questions"] == 1
    (level, other) = betting.figures.read().levels
    assert (level.questions, other.questions) == (40, 1)
    assert level.test is not None
    assert level.test.answers == 40
    assert level.labels["right"] + level.labels["wrong"] == level.test.labels
    assert level.delta == pytest.approx(CERTIFICATE.delta / 2)


def test_a_question_asked_again_enters_no_test_at_any_level(
    betting: Betting, database: Database
) -> None:
    stored = StoredAnswers(database, DRAW)
    digest = DRAW.question_digest(b"d" * 32)
    asked = [
        replace(
            given(number, 0.2 if number % 2 else 0.1),
            key_id=f"key {number}",
            started=float(number),
            audited=True,
            question_digest=digest,
        )
        for number in range(60)
    ]
    stored.add(asked[::-1])  # the first one asked is the last that ended
    stored.label([Label(one.id, False, None) for one in asked], ANYONE)
    betting.work(lambda: GUARANTEES)
    levels = betting.figures.read().levels
    assert [level.questions for level in levels] == [30, 30]
    assert [(test.labels, test.behind) for level in levels if (test := level.test)] == [
        (1, 0),
        (0, 0),
    ]
    assert betting.monitors.events() == []
    stored.add([replace(given(100), audited=True, question_digest=digest, certificate="d" * 64)])
    drift = replace(betting.monitors.all()[0].monitor, certificate="d" * 64, started=0.0)
    ((of_other,),) = betting.monitors.unseen([drift], time.time())
    assert not of_other.repeated


def test_what_was_asked_before_is_looked_up_in_an_index(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/one.db")
    said = str(
        select(AnswerRow.repeated)
        .where(AnswerRow.certificate == "c", AnswerRow.alpha == 0.1)
        .compile(compile_kwargs={"literal_binds": True})
    )
    with database.reading() as session:
        plan = [row[-1] for row in session.execute(text(f"EXPLAIN QUERY PLAN {said}"))]
    database.close()
    assert any("rlcm_answers_question (certificate=? AND question_digest=?" in one for one in plan)


def test_answers_that_wait_for_a_label_are_found_by_their_index(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/waiting.db")
    figures = betting_on(database).figures
    plans = plans_of(database, lambda: figures.read(history=False), "labelled IS NULL")
    database.close()
    used = [
        next(
            (name for name in ("waiting", "unread") if f"rlcm_answers_{name}" in " ".join(steps)),
            "",
        )
        for steps in plans
    ]
    assert set(used) == {"waiting", "unread"}


def test_an_open_label_stops_its_own_level_alone(betting: Betting, database: Database) -> None:
    stored = StoredAnswers(database, DRAW)
    open_ = [replace(given(n, 0.1), audited=True) for n in range(3)]
    other = [replace(given(10 + n, 0.2), audited=True) for n in range(3)]
    stored.add([*open_, *other])
    stored.label([Label(one.id, True, None) for one in (open_[1], *other)], ANYONE)
    betting.work(lambda: GUARANTEES)
    tests = [level.test for level in betting.figures.read().levels]
    assert [test.labels for test in tests if test is not None] == [0, 3]
    assert [test.behind for test in tests if test is not None] == [3, 0]
    stored.label([Label(open_[0].id, True, None)], ANYONE)
    betting.work(lambda: GUARANTEES)
    tests = [level.test for level in betting.figures.read().levels]
    assert [test.labels for test in tests if test is not None] == [2, 3]


def behind(betting: Betting) -> int:
    test = betting.figures.read().levels[0].test
    assert test is not None
    return test.behind


def test_a_test_that_an_older_release_began_is_behind_by_what_it_has_not_seen(
    betting: Betting, database: Database
) -> None:
    """Its state does not say how many answers it has seen."""
    fill(database, 20, wrong=0.0)
    betting.work(lambda: GUARANTEES)
    with database.session() as session:
        row = session.get_one(MonitorRow, (CERTIFICATE.digest, 0.1, "risk"))
        row.state = json.dumps({k: v for k, v in json.loads(row.state).items() if k != "seen"})
    new = [replace(given(100 + n), audited=n >= 2) for n in range(5)]
    StoredAnswers(database, DRAW).add(new)
    found = [behind(betting)]
    betting.work(lambda: GUARANTEES)
    found.append(behind(betting))
    StoredAnswers(database, DRAW).label([Label(one.id, True, None) for one in new], ANYONE)
    betting.work(lambda: GUARANTEES)
    assert [*found, behind(betting)] == [5, 3, 0]


def test_a_test_that_begins_after_answers_were_deleted_is_not_behind_by_them(
    database: Database,
) -> None:
    """As the test of `regret` does, where shadow runs are switched on later."""
    regret = certificate({0.1: ExitPolicy(lambda_high=0.9)}, risk="regret")
    guarantees = Guarantees([IDENTITY], [regret])
    early = [replace(given(n), certificate=regret.digest, risk="regret") for n in range(20)]
    answers, before = StoredAnswers(database, DRAW), betting_on(database)
    answers.add(early)
    before.work(lambda: guarantees)
    assert before.figures.read().levels[0].test is None
    assert before.monitors.cut(before=2.0, limit=15) == 15
    draw = ShadowDraw(1.0, drawn=True)
    answers.add(
        [replace(early[0], id=f"late-{n}", audited=True, time=1e12, shadow=draw) for n in range(2)]
    )
    after = betting_on(database, shadow_share=1.0)
    with database.session() as session:
        session.execute(delete(BettingRow))  # the process before has ended
    found = []
    for _ in range(2):
        after.work(lambda: guarantees)
        found.append(behind(after))
    assert found == [2, 2]


def test_an_answer_that_nobody_can_judge_is_skipped(
    betting: Betting, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as if its deadline had passed, and a later label enters no test."""
    stored, ids = StoredAnswers(database, DRAW), [given(n).id for n in range(3)]
    stored.add([replace(given(n), audited=True, audit_share=1.0) for n in range(3)])
    stored.label([Label(one, True, None) for one in ids[1:]], ANYONE)
    betting.work(lambda: GUARANTEES)
    assert stored.skip([*ids, "unknown"], Caller("one", frozenset({Scope.SOLVE}))) == 0
    assert [stored.skip([*ids, "unknown"], ANYONE) for _ in range(2)] == [1, 0]
    later = time.time() + 2 * GRACE
    monkeypatch.setattr(betting.monitors, "now", lambda: later)
    betting.work(lambda: GUARANTEES)
    level = betting.figures.read().levels[0]
    assert level.test is not None
    assert (level.test.labels, level.test.answers, level.test.behind) == (2, 3, 0)
    assert (level.labels["waiting"], level.labels["expired"]) == (0, 1)
    assert stored.label([Label(ids[0], False, None)], ANYONE).audited == 0


def test_a_correction_after_its_bet_changes_no_wealth(betting: Betting, database: Database) -> None:
    fill(database, 30, wrong=0.0)
    betting.work(lambda: GUARANTEES)
    before = states(database)
    stored = StoredAnswers(database, DRAW)
    assert stored.label([Label(given(3).id, False, None)], ANYONE).corrected == 1
    betting.work(lambda: GUARANTEES)
    assert states(database) == before
    labels = betting.figures.read().levels[0].labels
    assert labels["wrong"] + labels["others_wrong"] == 1


@pytest.mark.parametrize("action", ["withdraw", "smaller-level", "warn"])
def test_an_alarm_does_what_is_configured_once(database: Database, action: str) -> None:
    betting = betting_on(
        database, alarm_actions=[f"{CERTIFICATE.id}:risk={action}"], drift_alarm="none"
    )
    fill(database, 300, wrong=0.5)
    for _ in range(2):
        betting.work(lambda: GUARANTEES)
    events = betting.monitors.events()
    alarms = [event for event in events if event.what is EventKind.RISK_ALARM]
    assert [event.action.value for event in alarms] == [action]
    assert "risk alarm at alpha 0.1" in alarms[0].text
    with database.reading() as session:
        lost = withdrawn(session)
    wanted = {"withdraw": [None], "smaller-level": [0.1], "warn": []}[action]
    assert [(id_, one.below) for id_, one in lost.items()] == [(CERTIFICATE.id, a) for a in wanted]
    said = [event.action.value for event in events if event.what is EventKind.WITHDRAWN]
    assert said == [action] * len(wanted)
    assert {event.hook for event in events} == {Hook.NONE}


SUCCESSOR = certificate({0.1: ExitPolicy(lambda_high=0.7)}, delta=0.05)


@pytest.mark.parametrize(
    "how", ["activated", "deactivated", "another file", "file elsewhere", "still served"]
)
def test_late_labels_of_a_replaced_certificate_withdraw_nothing(
    database: Database, how: str
) -> None:
    """Another process may serve the first certificate's file, as its recent answers tell."""
    betting, store = betting_on(database, drift_alarm="none"), CertificateStore(database)
    for one in (CERTIFICATE, SUCCESSOR):
        store.add(one, "upload")
    betting.work(lambda: GUARANTEES)
    if how in ("activated", "deactivated"):
        store.activate([CERTIFICATE.id], [IDENTITY])
    if how == "activated":
        store.activate([SUCCESSOR.id], [IDENTITY])
    elif how == "deactivated":
        store.deactivate(CERTIFICATE.id, [IDENTITY])
    served = [] if how in ("deactivated", "file elsewhere") else [SUCCESSOR]
    fill(database, 300, wrong=0.5)
    if how == "file elsewhere":
        betting_on(database).work(lambda: Guarantees([IDENTITY], [SUCCESSOR]))
        under = replace(given(1000), started=time.time() - 60, certificate=SUCCESSOR.digest)
        StoredAnswers(database, DRAW).add([under])
    if how == "still served":
        StoredAnswers(database, DRAW).add([replace(given(1000), started=time.time() - 60)])
    betting.work(lambda: Guarantees([IDENTITY], served))
    (alarm,) = (one for one in betting.monitors.events() if one.what is EventKind.RISK_ALARM)
    with database.reading() as session:
        lost = set(withdrawn(session))
    if how == "still served":
        assert (alarm.action, lost) == (Action.WITHDRAW, {CERTIFICATE.id})
        return
    assert (alarm.action, lost) == (Action.WARN, set())
    assert alarm.text.endswith("no longer active, so nothing is withdrawn")
    assert store.activate([SUCCESSOR.id], [IDENTITY]).certificates == (SUCCESSOR,)


def test_nothing_is_withdrawn_before_it_is_known_what_is_served(database: Database) -> None:
    """A file was replaced while the service was down; late labels come while the engine starts."""

    def starting() -> Guarantees:
        raise NotReady("the engine starts")

    betting_on(database).work(lambda: GUARANTEES)
    fill(database, 300, wrong=0.5)
    restarted = betting_on(database, drift_alarm="none")
    with database.session() as session:
        session.execute(delete(BettingRow))
    assert not restarted.work(starting)
    assert restarted.monitors.events() == []
    assert restarted.work(lambda: Guarantees([IDENTITY], [SUCCESSOR]))
    (alarm,) = (one for one in restarted.monitors.events() if one.what is EventKind.RISK_ALARM)
    assert alarm.action is Action.WARN


def test_a_certificate_of_another_engine_is_withdrawn_by_whoever_looks(database: Database) -> None:
    betting = betting_on(database, drift_alarm="none")
    betting.work(lambda: GUARANTEES)
    other = replace(IDENTITY, model="m1")
    there = certificate({0.1: ExitPolicy()}, fingerprint=fingerprint_of(other))
    fill(database, 300, wrong=0.5)
    betting.work(lambda: Guarantees([other], [there]))
    with database.reading() as session:
        assert set(withdrawn(session)) == {CERTIFICATE.id}


@pytest.mark.parametrize(
    ("alarms", "below"),
    [
        ([0.2], 0.2),
        ([0.2, 0.1], 0.1),
        ([0.1, 0.2], 0.1),
        ([0.2, None], None),
        ([None, 0.2], None),
    ],
)
def test_of_several_alarms_of_a_certificate_the_strictest_counts(
    database: Database, alarms: list[float | None], below: float | None
) -> None:
    """None stands for an alarm whose action is the full budget."""
    for number, alpha in enumerate(alarms):
        with database.session() as session:
            is_new = withdraw(
                session,
                database,
                certificate=CERTIFICATE.digest,
                slot="s",
                delta=0.1,
                time=1.0 + number,
                why="risk alarm",
                below=alpha,
            )
        assert is_new is (number == 0)
    with database.reading() as session:
        (lost,) = withdrawn(session).values()
    assert (lost.below, lost.since) == (below, 1.0)


def test_readings_of_report_data_are_compared_with_live_ones(database: Database) -> None:
    """All four statistics; the one that moved is named, and each is shown with its noise band."""
    draw = random.Random(1)
    of_answers = [
        {
            "tokens": draw.choice([101, 134]),  # were 36 to 134
            "familiarity": draw.random(),
            "confidence": draw.uniform(0.5, 1),
            "answered": draw.random() >= 0.1,
        }
        for _ in range(250)
    ]
    values = {
        "tokens": np.repeat([36, 69, 101, 134], 75),
        "familiarity": np.linspace(0, 1, 300),
        "confidence": np.linspace(0.5, 1, 300),
        "declined": np.arange(300) < 30,
    }
    reference = tuple(ReferenceCounts.of(name, one) for name, one in values.items())
    levels = tuple(ReportLevel(alpha, None, None, reference) for alpha in (0.1, 0.2))
    shipped = ReportData.load(report_data_path(find_certificates(EMBEDDED_MODEL)[0]))
    report = replace(shipped, certificate=CERTIFICATE.digest, levels=levels)
    CertificateStore(database).add(CERTIFICATE, "a test", report)
    betting = betting_on(database)
    StoredAnswers(database, DRAW).add(
        [replace(given(number), **changes) for number, changes in enumerate(of_answers)]
    )
    betting.work(lambda: GUARANTEES)
    level = betting.figures.read().levels[0]
    shown = {one.statistic: one for one in level.drift}
    assert set(shown) == set(values)
    assert [name for name, one in shown.items() if one.alarmed] == ["tokens"]
    assert shown["tokens"].calibration == pytest.approx(85, rel=0.05)
    assert shown["tokens"].now == pytest.approx(117.5, rel=0.1)
    assert not shown["tokens"].low <= shown["tokens"].rank <= shown["tokens"].high
    alarms = [one for one in betting.monitors.events() if one.what is EventKind.DRIFT_ALARM]
    assert [one.figures for one in alarms] == [{"statistics": ["tokens"]}]


@pytest.mark.parametrize("bad", ['{"monitor": {"version": 99}}', "no JSON"])
def test_a_monitor_whose_state_cannot_be_used_stops_no_other(
    betting: Betting, database: Database, caplog: pytest.LogCaptureFixture, bad: str
) -> None:
    fill(database, 30, wrong=0.1)
    betting.work(lambda: GUARANTEES)
    other = (0.1, MonitorKind.DRIFT.value), (0.2, MonitorKind.RISK.value)
    with database.session() as session:
        for alpha, what in other:
            of_row = MonitorRow.alpha == alpha, MonitorRow.what == what
            session.execute(update(MonitorRow).where(*of_row).values(state=bad))
    stored = StoredAnswers(database, DRAW)
    new = [
        replace(given(100 + n, alpha), id=f"{n} {alpha}") for n in (0, 1) for alpha in (0.1, 0.2)
    ]
    stored.add([replace(one, due=1.0) for one in new])
    for _ in range(2):
        assert betting.work(lambda: GUARANTEES)
    places = {key: place for key, (place, _) in states(database).items()}
    assert places == {
        (0.1, "drift"): 30,
        (0.1, "risk"): 33,
        (0.2, "drift"): 34,
        (0.2, "risk"): 0,
    }
    figures = betting.figures.read()
    level, low = figures.levels
    assert (level.drift, low.test, figures.unusable) == ((), None, 2)
    assert level.test is not None
    assert low.drift
    said = [one.message for one in caplog.records if "stands" in one.message]
    assert [text.partition(" stands")[0] for text in said] == [
        f"the {what} monitor of certificate {CERTIFICATE.id} at alpha {alpha}"
        for alpha, what in other
    ]


def test_a_look_that_fails_does_not_count_as_one(
    betting: Betting, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    betting.work(lambda: GUARANTEES)
    before, later = betting.figures.read().looked, time.time() + 60
    monkeypatch.setattr(betting.monitors, "now", lambda: later)
    monkeypatch.setattr(betting.monitors.counts, "expire", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        betting.work(lambda: GUARANTEES)
    assert betting.figures.read().looked == before
    monkeypatch.undo()
    monkeypatch.setattr(betting.monitors, "now", lambda: later)
    betting.work(lambda: GUARANTEES)
    assert betting.figures.read().looked == later


def test_one_process_works_and_another_takes_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = betting_on(database), betting_on(database)
    assert one.work(lambda: GUARANTEES)
    assert not other.work(lambda: GUARANTEES)
    later = time.time() + 60
    monkeypatch.setattr(other.monitors, "now", lambda: later)
    assert other.work(lambda: GUARANTEES)


def test_of_two_that_work_at_once_one_counts(database: Database) -> None:
    """Without any lease: what the slower one computed is not stored."""
    one, other = betting_on(database), betting_on(database)
    one.work(lambda: GUARANTEES)
    fill(database, 30, wrong=0.2)
    stale = other.monitors.all()
    one.catch_up(one.monitors.all(), time.time(), time.time())
    done = states(database)
    other.catch_up(stale, time.time(), time.time())
    assert states(database) == done


def test_monitors_are_stored_together_and_others_may_write_after_each_transaction(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    betting, other = betting_on(database), Database(database_url, wait=0.1)
    betting.work(lambda: GUARANTEES)
    fill(database, 25, wrong=0.2)
    StoredAnswers(database, DRAW).add([given(100 + number, 0.2) for number in range(5)])
    done: list[str] = []
    commit = betting.monitors.commit

    def commit_together(steps: Sequence[Step]) -> list[bool]:
        done.append(f"{len(steps)} monitors")
        return commit(steps)

    def rest(seconds: float) -> None:
        assert seconds > 0
        with other.session() as session:  # raises DatabaseBusy if it must wait
            session.execute(update(MonitorRow).values(alarmed=MonitorRow.alarmed))
        done.append("another writer")

    monkeypatch.setattr(betting.monitors, "commit", commit_together)
    monkeypatch.setattr("rlcm_serve.monitoring.running.betting.AT_ONCE", 10)
    monkeypatch.setattr("rlcm_serve.monitoring.running.betting.time.sleep", rest)
    betting.work(lambda: GUARANTEES)
    other.close()
    # Both monitors of both levels, except for one that waits for a label; then those with more.
    assert done == [
        text for number in (3, 2, 2) for text in (f"{number} monitors", "another writer")
    ]


def test_little_is_read_of_what_waits_for_a_label(
    betting: Betting, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    betting.work(lambda: GUARANTEES)
    StoredAnswers(database, DRAW).add([replace(given(n), audited=True) for n in range(30)])
    betting.work(lambda: GUARANTEES)
    (waiting,) = betting.monitors.with_news(time.time())
    assert waiting.monitor.what is MonitorKind.RISK
    read: list[int] = []
    unseen = betting.monitors.unseen

    def counted(*asked: Any) -> list[list[SeenAnswer]]:
        found = unseen(*asked)
        read.extend(len(answers) for answers in found)
        return found

    monkeypatch.setattr(betting.monitors, "unseen", counted)
    betting.work(lambda: GUARANTEES)
    assert read == [1]


def test_old_answers_are_deleted_with_their_labels(betting: Betting, database: Database) -> None:
    fill(database, 20, wrong=0.2)  # they were given in 1970
    assert betting.monitors.cut(before=2.0, limit=15) == 15
    assert betting.monitors.cut(before=2.0, limit=15) == 5
    assert StoredAnswers(database, DRAW).find([given(3).id], ANYONE) == {}


def history_row(number: int, minutes: float) -> dict[str, Any]:
    key = {"certificate": CERTIFICATE.digest, "alpha": 0.1, "time": 60 * minutes}
    return key | {"figures": {"answers": number}}


def test_a_history_of_months_is_shown_from_end_to_end(betting: Betting, database: Database) -> None:
    rows = [history_row(number, 5 * number) for number in range(288 * 30)]
    stored = [row | {"figures": json.dumps(row["figures"])} for row in rows]
    with database.session() as session:
        session.execute(insert(HistoryRow), stored)
    shown = betting.monitors.history(CERTIFICATE.digest, 0.1, 300)
    assert 290 <= len(shown) <= 301
    times = [row["time"] for row in shown]
    assert times[-1] == rows[-1]["time"]
    assert times[0] <= 300 * 30
    assert np.diff(times).max() <= 300 * 60
    assert shown[-1]["answers"] == len(rows) - 1
    assert betting.monitors.history(CERTIFICATE.digest, 0.2, 300) == []


def test_history_has_no_row_without_news_and_old_rows_are_deleted(
    betting: Betting, database: Database
) -> None:
    for number, minutes in ((1, 0), (1, 5), (2, 10), (2, 15)):
        betting.monitors.add_history([history_row(number, minutes)])
    assert [row["time"] / 60 for row in betting.monitors.history(CERTIFICATE.digest, 0.1, 300)] == [
        0,
        10,
    ]
    Betting(database, Settings(answers_days=10), DRAW, CertificateStore(database)).work(
        lambda: GUARANTEES
    )
    assert betting.monitors.history(CERTIFICATE.digest, 0.1, 300) == []


def work_until_killed(url: str) -> subprocess.Popen[bytes]:
    """A process that shows few answers at a time to the monitors."""
    program = (
        "from tests.rlcm_serve.monitoring.running import test_betting as t\n"
        "from rlcm_serve.monitoring.running import betting\n"
        "from rlcm_serve.store.answers import turn\n"
        "betting.AT_ONCE = 3\nbetting.LEASE = turn.LEASE = 0.0\n"
        f"one = t.betting_on(t.Database({url!r}))\n"
        "print('ready', flush=True)\n"
        "while True: one.work(lambda: t.GUARANTEES)\n"
    )
    command = [sys.executable, "-c", program]
    root = Path(__file__).parents[4]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE)


def test_monitors_see_answers_in_the_order_of_asking(betting: Betting, database: Database) -> None:
    """The answer that is stored first belongs to the question that was asked last."""
    stored = StoredAnswers(database, DRAW)
    three, four, five = (replace(given(n), started=float(n), audited=False) for n in (3, 4, 5))
    betting.work(lambda: GUARANTEES)
    stored.add([five, four])
    betting.catch_up(betting.monitors.all(), 3.0, time.time())  # one asked then is still answered
    assert {one.monitor.started for one in betting.monitors.all()} == {0.0}
    stored.add([three])
    drift = betting.monitors.all()[0].monitor
    (seen,) = betting.monitors.unseen([drift], time.time())
    assert [answer.started for answer in seen] == [3.0, 4.0, 5.0]
    betting.work(lambda: GUARANTEES)
    assert [one.monitor.started for one in betting.monitors.all()[:2]] == [5.0, 5.0]


def test_the_mark_is_the_smallest_of_the_processes_that_run(database: Database) -> None:
    monitors, now = betting_on(database).monitors, time.time()
    assert monitors.note_mark("one", 10.0, now + 60) == 10.0
    assert monitors.note_mark("two", 5.0, now + 60) == 5.0
    assert monitors.note_mark("two", 20.0, now + 60) == 10.0
    monitors.note_mark("one", 12.0, now - 1)  # it has stopped
    assert monitors.note_mark("two", 21.0, now + 60) == 21.0


def test_answers_after_the_clock_was_set_back_enter_the_tests(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process starts after the clock was set back: monitors have seen answers of the future."""
    stored, certificates = StoredAnswers(database, DRAW), CertificateStore(database)
    hour_ahead = time.time() + 3600
    stored.add([replace(given(1), started=hour_ahead)])
    former = Betting(database, Settings(), DRAW, certificates, lambda: hour_ahead + 1)
    assert former.work(lambda: GUARANTEES)
    monkeypatch.setattr(database, "now", lambda session: time.time() + LEASE + 1)
    live = LiveMonitoring(database, Settings(), certificates)
    with live.in_flight.question() as started:
        stored.add([replace(given(2), started=started)])
    assert live.betting.work(lambda: GUARANTEES)
    assert live.betting.figures.read().levels[0].questions == 2


def test_full_answers_are_graded_in_processes_that_do_not_run_the_monitors(
    database: Database,
) -> None:
    """Each grades under the profiles that it serves."""
    graded = list[str]()
    one, other = betting_on(database), betting_on(database)
    one.after, other.after = (lambda: graded.append("one")), (lambda: graded.append("other"))
    assert (one.work(lambda: GUARANTEES), other.work(lambda: GUARANTEES)) == (True, False)
    assert graded == ["one", "other"]


def test_the_mark_of_a_dead_process_ends_although_the_clock_is_set_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [10_000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    monitors = betting_on(database).monitors
    monitors.note_mark("dead", 10.0, clock[0] + LEASE)
    clock[0] -= 3600
    assert monitors.note_mark("alive", 20.0, clock[0] + LEASE) == 10.0, "it may still be alive"
    clock[0] += LEASE + 1
    assert monitors.note_mark("alive", 21.0, clock[0] + LEASE) == 21.0


def test_the_turn_passes_on_although_the_clock_is_set_back(database: Database) -> None:
    dead, alive, now = MonitorsTurn(database), MonitorsTurn(database), 10_000.0
    assert dead.claim(now)
    assert not alive.claim(now + 1)
    assert alive.claim(now - 3600)
    assert not dead.claim(now - 3599)


async def test_a_look_that_outlasts_the_lease_keeps_mark_and_turn(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process would pass over the answers that are still to come."""
    clock = [1000.0]
    monkeypatch.setattr(database, "now", lambda session: clock[0])
    monkeypatch.setattr(betting_module, "LOOK_EVERY", 0.02)
    one, other = betting_on(database), betting_on(database)
    monkeypatch.setattr(one, "_mark", lambda: 500.0)
    turns, marks, ended = list[bool](), list[float](), asyncio.Event()
    loop = asyncio.get_running_loop()

    def look_on() -> None:
        for _ in range(6):
            clock[0] += 10
            time.sleep(0.2)
            turns.append(other.work(lambda: GUARANTEES))
            marks.append(other.monitors.note_mark("third", clock[0], clock[0] + 1))
        loop.call_soon_threadsafe(ended.set)
        one.after = lambda: None

    one.after = look_on
    running = asyncio.create_task(one.run(lambda: GUARANTEES))
    await asyncio.wait_for(ended.wait(), 60)
    running.cancel()
    assert turns == [False] * 6
    assert marks == [500.0] * 6


@pytest.mark.slow
def test_a_process_killed_anywhere_leaves_the_exact_state(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    """Killed with -9 again and again, the monitors end where one that was never killed does."""
    fill(database, 400, wrong=0.15)
    other = Database(f"sqlite:///{tmp_path}/other.db")
    fill(other, 400, wrong=0.15)
    betting_on(other).work(lambda: GUARANTEES)
    expected = states(other)
    other.close()
    draw = random.Random(1)
    for _ in range(3):
        process = work_until_killed(database_url)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        before = states(database)
        while states(database) == before and before != expected:
            time.sleep(0.001)
        time.sleep(0.03 * draw.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    final = betting_on(database)
    final.work(lambda: GUARANTEES)
    final.catch_up(final.monitors.all(), time.time(), time.time())
    assert states(database) == expected
