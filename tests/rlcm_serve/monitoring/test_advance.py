"""What the monitors of a level see of its answers, and in what order."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.monitoring.reference import ReferenceCounts
from calibration.monitoring.risk_monitor import RiskMonitor
from rlcm_serve.monitoring.advance import Monitor, advance, alarm_text
from rlcm_serve.monitoring.losses import GRACE, SeenAnswer, SeenShadow
from rlcm_serve.monitoring.records import MonitorKind
from rlcm_serve.monitoring.reference import live_values, values_of

RISK = Monitor("c" * 64, 0.1, MonitorKind.RISK, "selective", 0.1, {}, 0.0, 0, {}, None)
REFERENCE = {"declined": [900, 100], "confidence": [0] * 19 + [1000]}
DRIFT = replace(RISK, what=MonitorKind.DRIFT, reference=REFERENCE)
NOW, DUE, SEED = 100.0, 1000.0, b"seed"


def seen(number: int, right: bool | None = True, **changes: Any) -> SeenAnswer:
    labelled = None if right is None else 50.0
    plain = SeenAnswer(float(number), number, True, 0.9, True, 0.5, DUE, right, labelled)
    return replace(plain, **changes)


WHOLE = {
    name: ReferenceCounts.of(name, np.array(values)).by_bin()
    for name, values in {
        "familiarity": np.linspace(0.01, 1, 300),
        "confidence": np.linspace(0.5, 0.99, 300),
        "tokens": np.repeat([36, 69, 101, 134], 75),
        "declined": np.arange(300) < 30,
    }.items()
}


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


@pytest.mark.parametrize("risk", ["selective", "error"])
def test_an_answer_to_a_question_asked_before_is_passed_and_enters_no_test(risk: str) -> None:
    first, again = seen(1, False), seen(2, None, repeated=True, confidence=0.1)
    monitor = replace(RISK, risk=risk)
    assert not monitor.waits(again, NOW)
    alone, both = (advance(monitor, some, NOW, SEED) for some in ([first], [first, again]))
    assert both.state["monitor"] == alone.state["monitor"]
    assert (both.sequence, both.state["seen"]) == (2, 2)
    alone, both = (advance(DRIFT, some, NOW, SEED) for some in ([first], [first, again]))
    assert both.state["monitor"] == alone.state["monitor"]
    assert (both.sequence, both.state["questions"]) == (2, 2)


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


def test_an_alarm_says_what_is_lost_under_its_risk() -> None:
    """Under `regret`, most of what is counted has no label, and no wrong answer is a loss."""
    run = SeenShadow(1.0, True, DUE, 50.0, False, None)
    worse = replace(run, disagrees=True, full_right=True)
    answers = [
        seen(number, False if number % 2 else None, audit_share=1.0, shadow=shadow)
        for number in range(1, 100)
        for shadow in [worse if number % 2 else run]
    ]
    alarmed = advance(replace(RISK, risk="regret"), answers, NOW, SEED)
    assert alarm_text(alarmed, SEED)[0] == (
        "risk alarm at alpha 0.1: 50 of 99 answers drawn for audit and a shadow run are not right "
        "where the full budget is"
    )
    declined = [seen(number, None, answered=False, audit_share=1.0) for number in range(1, 100)]
    alarmed = advance(replace(RISK, risk="error"), declined, NOW, SEED)
    assert alarm_text(alarmed, SEED)[0] == (
        "risk alarm at alpha 0.1: 99 of 99 audited questions got no right answer"
    )


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


@pytest.mark.parametrize("moved", ["familiarity", "confidence", "tokens", "declined"])
def test_each_statistic_is_tested_and_the_one_that_moved_is_named(moved: str) -> None:
    draw = random.Random(1)
    whole = replace(DRIFT, reference=WHOLE)
    answers = []
    for number in range(300):
        plain = seen(
            number,
            familiarity=draw.uniform(0.01, 1),
            confidence=draw.uniform(0.5, 0.99),
            tokens=draw.choice([36, 69, 101, 134]),
            answered=draw.random() >= 0.1,
        )
        changed: dict[str, Any] = {
            "familiarity": {"familiarity": draw.uniform(0.01, 0.5)},
            "confidence": {"confidence": draw.uniform(0.5, 0.75)},
            "tokens": {"tokens": draw.choice([101, 134])},
            "declined": {"answered": draw.random() >= 0.5},
        }[moved]
        answers.append(replace(plain, **changed))
    after = advance(whole, answers, NOW, SEED)
    assert after.alarmed == NOW
    text, figures = alarm_text(after, SEED)
    assert (text, figures) == (f"drift alarm at alpha 0.1: {moved} moved", {"statistics": [moved]})
    bands = {band.name: band for band in after.drift_monitor(SEED).bands()}
    assert set(bands) == set(WHOLE)
    assert bands["tokens"].reference_mean == pytest.approx(85, rel=0.05)


def test_a_familiarity_that_was_not_read_is_passed_over() -> None:
    after = advance(replace(DRIFT, reference=WHOLE), [seen(1, tokens=69)], NOW, SEED)
    read = {band.name for band in after.drift_monitor(SEED).bands()}
    assert read == {"confidence", "tokens", "declined"}


def test_report_data_without_a_reference_gives_its_confidences_in_wide_bins() -> None:
    """Then a live confidence counts as the middle of its bin, as the recorded ones do."""
    values = live_values(REFERENCE, seen(1, confidence=0.99, tokens=69))
    assert values == {"declined": 0.0, "confidence": pytest.approx(0.975)}
    recorded = values_of(REFERENCE)
    assert recorded["confidence"].tolist() == pytest.approx([0.975] * 1000)
