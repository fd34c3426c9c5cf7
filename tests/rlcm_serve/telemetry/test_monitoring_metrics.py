from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from calibration import Certificate, ExitPolicy
from rlcm_serve.store.answers.figures import MonitoringFigures
from rlcm_serve.telemetry.metrics import Metrics
from rlcm_serve.telemetry.monitoring_metrics import monitored
from tests.rlcm_serve.scripted_engine import certificate
from tests.rlcm_serve.telemetry.figures import FIGURES, LEVEL, NEW, WITHDRAWN, figures_of

ACTIVE = certificate({0.1: ExitPolicy(lambda_high=0.9)})
Series = dict[tuple[str, str], float]


def series(figures: MonitoringFigures, served: Sequence[Certificate] = (ACTIVE,)) -> Series:
    """The series of live monitoring, by name and last label."""
    return {
        (sample.name, sample.labels.get(family_label(sample.labels), "")): sample.value
        for family in monitored(figures_of(ACTIVE, figures), served)
        for sample in family.samples
        if any(part in sample.name for part in ("live", "audit", "monitor"))
    }


def family_label(labels: dict[str, str]) -> str:
    return next((name for name in ("outcome", "verdict", "statistic") if name in labels), "alpha")


def test_a_level_is_shown_with_its_labels_and_its_test() -> None:
    shown = series(FIGURES)
    assert shown["rlcm_live_questions", "answered"] == 4700
    assert shown["rlcm_live_questions", "abstained"] == 300
    assert shown["rlcm_live_declined_share", "0.1"] == pytest.approx(0.06)
    assert shown["rlcm_live_labels", "wrong"] == 15
    assert shown["rlcm_live_labels", "expired"] == 3
    assert [shown[f"rlcm_live_risk{end}", "0.1"] for end in ("", "_low", "_high")] == [
        0.068,
        0.031,
        0.119,
    ]
    assert (
        shown["rlcm_live_risk_log_wealth", "0.1"],
        shown["rlcm_live_risk_threshold", "0.1"],
    ) == (
        -0.8,
        3.0,
    )
    assert shown["rlcm_live_risk_alarmed", "0.1"] == 0
    assert shown["rlcm_live_drift_alarmed", "confidence"] == 1
    assert shown["rlcm_live_drift_alarmed", "declined"] == 0


def test_what_waits_for_a_label_is_shown_with_its_age() -> None:
    shown = series(FIGURES)
    assert shown["rlcm_audits_waiting", ""] == 12
    assert shown["rlcm_audit_oldest_seconds", ""] == 200
    assert shown["rlcm_monitoring_behind_seconds", ""] == 1


def test_tests_that_stand_still_are_counted() -> None:
    assert series(FIGURES)["rlcm_monitors_unusable", ""] == 0
    assert series(replace(FIGURES, unusable=2))["rlcm_monitors_unusable", ""] == 2


def test_a_withdrawn_certificate_is_marked() -> None:
    assert series(FIGURES)["rlcm_live_withdrawn", ""] == 0
    assert series(WITHDRAWN)["rlcm_live_withdrawn", ""] == 1


def test_alerts_end_when_a_certificate_is_replaced() -> None:
    """Its figures stay, and no series on which an alert fires."""
    assert LEVEL.test is not None
    alarmed = replace(LEVEL, test=replace(LEVEL.test, alarmed_at=1100.0))
    figures = replace(WITHDRAWN, levels=(alarmed,))
    alarms = {
        ("rlcm_live_risk_alarmed", "0.1"),
        ("rlcm_live_drift_alarmed", "confidence"),
        ("rlcm_live_withdrawn", ""),
    }
    before, after = series(figures), series(figures, [certificate({0.1: ExitPolicy()})])
    assert {before[one] for one in alarms} == {1}
    assert not {name for name, _ in alarms} & {name for name, _ in after}
    assert after["rlcm_live_labels", "wrong"] == 15


def test_what_is_not_known_is_left_out() -> None:
    shown = series(NEW)
    assert not [name for name, _ in shown if name.startswith("rlcm_live_risk")]
    assert ("rlcm_live_declined_share", "0.1") not in shown
    assert ("rlcm_monitoring_behind_seconds", "") not in shown
    assert shown["rlcm_audit_oldest_seconds", ""] == 0


def test_figures_that_cannot_be_read_leave_the_rest_of_the_page(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> MonitoringFigures:
        raise OSError("the disk is gone")

    metrics = Metrics()
    metrics.watch(monitoring=broken)
    with caplog.at_level(logging.ERROR):
        page = metrics.page()[0].decode()
    assert "rlcm_live" not in page
    assert "rlcm_questions" in page
    assert "could not be read" in caplog.text
