"""The live panel: whether promises are kept, told by hand in the service's format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from rlcm_serve.api.wire.monitoring.figures import (
    AuditNow,
    DriftNow,
    HistoryPoint,
    LabelCounts,
    LabelTest,
    MonitoredCertificate,
    MonitoredLevel,
    MonitoringBody,
    MonitoringEventBody,
)
from tests.page.by_hand import alter, refuse, tell
from tests.page.visitor import Visitor

pytestmark = pytest.mark.page

NOW = datetime(2026, 1, 12, 9, 30, tzinfo=UTC)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat(timespec="milliseconds")


def level(alpha: float, *, alarmed: bool) -> dict[str, Any]:
    """A level over a week whose risk rises if it ends in an alarm."""
    end = 0.19 if alarmed else 0.06
    history = [
        HistoryPoint.example(
            time=ago(7 - day / 4),
            risk=0.05 + (end - 0.05) * day / 28,
            low=max(0.0, 0.05 + (end - 0.05) * day / 28 - 0.3 / (1 + day) ** 0.5),
            high=0.05 + (end - 0.05) * day / 28 + 0.3 / (1 + day) ** 0.5,
        )
        for day in range(29)
    ]
    drift = [
        DriftNow.example(statistic="confidence", rank=0.38, alarmed=alarmed),
        DriftNow.example(statistic="declined", now=0.06, calibration=0.07, rank=0.5),
    ]
    last = {name: history[-1][name] for name in ("risk", "low", "high")}
    test = LabelTest.example(**last, alarmed=alarmed, alarmed_at=ago(0.5) if alarmed else None)
    counts = LabelCounts.example()
    return MonitoredLevel.example(alpha=alpha, history=history, drift=drift, test=test) | {
        "labels": counts,
        "risk_upper": 0.09,
    }


def body(*, alarmed: bool) -> dict[str, Any]:
    lost = {"guarantee": "withdrawn", "why": "risk alarm at alpha 0.1", "since": ago(0.5)}
    levels = [level(0.1, alarmed=alarmed), level(0.2, alarmed=False) | {"test": None}]
    one = MonitoredCertificate.example(levels=levels) | (lost if alarmed else {})
    events = [MonitoringEventBody.example(time=ago(0.5))] if alarmed else []
    audit = AuditNow.example(oldest=ago(2))
    made = MonitoringBody.example(time=ago(0), audit=audit, certificates=[one], events=events)
    return MonitoringBody.model_validate(made).model_dump(mode="json")


def open_panel(visitor: Visitor, told: dict[str, Any]) -> str:
    alter(visitor, "overview", figures="service")
    tell(visitor, "monitoring", told)
    visitor.go("#/operate")
    expect(visitor.page.locator(".live-section")).to_be_visible()
    return visitor.text(".live-section")


def test_a_promise_that_is_kept(known: Visitor) -> None:
    said = open_panel(known, body(alarmed=False))
    assert "● guarantee given" in said
    assert "5% of answers are drawn for audit. 12 answers wait for a label" in said
    row = known.page.locator(".live-certificates tbody tr").first
    expect(row).to_contain_text("α 10%")
    expect(row).to_contain_text("6% (0.4% to 11.6%)")
    expect(row).to_contain_text("210 right, 15 wrong; 12 waiting; 3 expired")
    expect(row).to_contain_text("6% (expected 7%)")
    expect(row).to_contain_text("● no alarm")
    expect(known.page.locator(".live-certificates")).to_contain_text("no test of this risk")
    chart = known.page.get_by_role("img", name="Live risk at α 10% with its confidence sequence")
    expect(chart).to_be_visible()
    expect(known.page.locator(".live-events")).to_have_count(0)
    known.page.locator(".live-certificates details summary", has_text="Drift").click()
    known.inspect("live")


def test_a_promise_that_is_broken(known: Visitor) -> None:
    said = open_panel(known, body(alarmed=True))
    assert "✕ guarantee withdrawn" in said
    assert "risk alarm at alpha 0.1, since" in said
    assert "✕ risk alarm; ▲ drift of confidence" in said
    events = known.page.locator(".live-events li")
    expect(events).to_have_count(1)
    expect(events).to_contain_text("the guarantee was withdrawn; the webhook was told")
    expect(events).to_contain_text("runbook RlcmRiskAlarm")
    known.page.locator(".live-certificates details summary", has_text="Drift").click()
    expect(known.page.locator(".live-certificates")).to_contain_text("0.38 ▲ outside")
    known.inspect("live-alarm")


def test_who_may_not_read_it_sees_no_panel(known: Visitor) -> None:
    refuse(known, "monitoring", AssertionError("nobody asks"))
    known.go("#/operate")
    expect(known.page.locator(".figures")).to_be_visible()
    expect(known.page.locator(".live-section")).not_to_be_visible()
    assert f"{known.url}/monitoring" not in known.addresses
