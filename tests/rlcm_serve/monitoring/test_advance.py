"""What the monitors of a level see of its answers, and in what order."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from calibration.monitoring.risk_monitor import RiskMonitor
from rlcm_serve.monitoring.advance import GRACE, Monitor, SeenAnswer, advance, alarm_text
from rlcm_serve.monitoring.records import MonitorKind

RISK = Monitor("c" * 64, 0.1, MonitorKind.RISK, "selective", 0.1, {}, 0.0, 0, {}, None)
REFERENCE = {"declined": [900, 100], "confidence": [0] * 19 + [1000]}
DRIFT = replace(RISK, what=MonitorKind.DRIFT, reference=REFERENCE)
NOW, DUE, SEED = 100.0, 1000.0, b"seed"


def seen(number: int, right: bool | None = True, **changes: Any) -> SeenAnswer:
    labelled = None if right is None else 50.0
    plain = SeenAnswer(float(number), number, True, 0.9, True, 0.5, DUE, right, labelled)
    return replace(plain, **changes)


def labels(monitor: Monitor) -> int:
    return monitor.risk_monitor().labels


def test_the_oldest_open_label_stops_the_test_until_its_deadline() -> None:
    answers = [seen(1), seen(2, audited=False, right=None), seen(3, None), seen(4)]
    first = advance(RISK, answers, NOW, SEED)
    assert (first.sequence, labels(first)) == (2, 1)
    still = advance(first, answers[2:], DUE + GRACE, SEED)
    assert still.sequence == 2
    later = advance(first, answers[2:], DUE + GRACE + 1, SEED)
    assert (later.sequence, labels(later)) == (4, 2)


def test_a_label_after_the_deadline_is_no_label() -> None:
    late = seen(1, False, labelled=DUE + 1)
    after = advance(RISK, [late], DUE + 100, SEED)
    assert (after.sequence, labels(after), after.state["wrong"]) == (1, 0, 0)


def test_declined_questions_count_as_their_risk_says() -> None:
    declined = [seen(1, None, answered=False), seen(2, None, answered=False, audited=False)]
    selective = advance(RISK, declined, NOW, SEED)
    assert (selective.sequence, selective.risk_monitor().answers) == (2, 0)
    error = advance(replace(RISK, risk="error"), declined, NOW, SEED)
    assert (error.sequence, labels(error), error.state["wrong"]) == (2, 1, 1)


def test_answers_that_could_not_be_drawn_are_not_tested() -> None:
    after = advance(RISK, [seen(1, None, audited=False, audit_share=0.0)], NOW, SEED)
    assert (after.sequence, after.risk_monitor().answers) == (1, 0)


def test_the_same_answers_in_any_portions_give_the_same_state() -> None:
    draw = random.Random(7)
    answers = [
        seen(
            number,
            draw.random() > 0.3,
            confidence=draw.random(),
            audited=draw.random() < 0.5,
            answered=draw.random() < 0.9,
        )
        for number in range(1, 400)
    ]
    for start in (RISK, DRIFT):
        whole = advance(start, answers, NOW, SEED)
        parts, at = start, 0
        while at < len(answers):
            step = draw.randrange(1, 40)
            stored = json.loads(json.dumps(parts.state))  # as a restarted process reads it
            parts = advance(replace(parts, state=stored), answers[at : at + step], NOW, SEED)
            at += step
        assert json.dumps(parts.state) == json.dumps(whole.state)
        assert parts.sequence == whole.sequence == 399


def test_an_alarm_says_what_it_saw() -> None:
    answers = [seen(number, number % 3 > 0, audit_share=1.0) for number in range(1, 300)]
    alarmed = advance(RISK, answers, NOW, SEED)
    assert alarmed.alarmed == NOW
    text, figures = alarm_text(alarmed, SEED)
    assert text == "risk alarm at alpha 0.1: 99 of 299 audited answers are wrong"
    assert figures["low"] > 0.1
    assert advance(alarmed, [seen(300)], NOW + 1, SEED).alarmed == NOW


def test_drift_is_found_and_named() -> None:
    lower = [seen(number, None, confidence=0.3) for number in range(1, 300)]
    moved = advance(DRIFT, lower, NOW, SEED)
    assert moved.alarmed == NOW
    text, figures = alarm_text(moved, SEED)
    assert figures["statistics"] == ["confidence"]
    assert text == "drift alarm at alpha 0.1: confidence moved"
    assert moved.state["questions"] == moved.state["answered"] == 299


def test_the_state_is_that_of_the_monitor_itself() -> None:
    """The stored state has nothing of its own: a monitor by hand ends in the same one."""
    by_hand = RiskMonitor(0.1, 0.1)
    for right in (True, False, True):
        by_hand.add(0.0 if right else 1.0, 0.9, 0.5, audited=True)
    after = advance(RISK, [seen(1, True), seen(2, False), seen(3, True)], NOW, SEED)
    assert after.state["monitor"] == by_hand.state()
