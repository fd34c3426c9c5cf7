"""Metrics of live monitoring: what all processes of a database know together."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily

from calibration.certificate.levels import CertifiedLevel
from rlcm_serve.telemetry.shadow_metrics import shadowed

if TYPE_CHECKING:
    from calibration import Certificate
    from rlcm_serve.store.answers.figures import LevelFigures, MonitoringFigures

_LEVEL = ("certificate", "risk", "alpha")
_LABELS = ("right", "wrong", "expired", "waiting", "others_right", "others_wrong")
_TEST = {
    "risk": "Estimated risk of the answers so far; absent before the first label.",
    "low": "Lower end of the confidence sequence of the risk; it holds however often you look.",
    "high": "Upper end of the confidence sequence of the risk.",
    "log_wealth": "Natural logarithm of the evidence against the level's promise.",
    "threshold": "The log_wealth at which the risk alarm is raised.",
    "behind": "Answers that the test has not reached, because an earlier one waits for its label.",
}


def monitored(figures: MonitoringFigures, served: Sequence[Certificate]) -> Iterator[Metric]:
    """All families of live monitoring.

    Args:
        figures: of the database, so that every process shows the same.
        served: the active certificates, whose expected figures are shown beside. Only their alarms
            are shown, so alerts end when a certificate is replaced or deactivated.
    """
    active = {one.digest for one in served}
    alarming = [level for level in figures.levels if level.certificate in active]
    yield from _levels(figures.levels)
    yield from _tests(figures.levels)
    yield from shadowed(figures.levels)
    yield _risk_alarms(alarming)
    yield _drift(alarming)
    yield _withdrawn(alarming, figures.withdrawn)
    yield from _expected(served)
    yield GaugeMetricFamily(
        "rlcm_audits_waiting",
        "Audited answers without a label whose deadline has not passed.",
        value=figures.waiting,
    )
    oldest = figures.time if figures.oldest is None else figures.oldest
    yield GaugeMetricFamily(
        "rlcm_audit_oldest_seconds",
        "Age of the oldest of them; 0 if none waits.",
        value=figures.time - oldest,
    )
    yield GaugeMetricFamily(
        "rlcm_monitors_unusable",
        "Tests whose stored state this process cannot read; the log names each of them.",
        value=figures.unusable,
    )
    if figures.looked is not None:
        yield GaugeMetricFamily(
            "rlcm_monitoring_behind_seconds",
            "Seconds since the tests last looked for new answers.",
            value=max(0.0, figures.time - figures.looked),
        )


def _names(level: LevelFigures) -> tuple[str, str, str]:
    return level.certificate[:12], level.risk, f"{level.alpha:g}"


def _levels(levels: Sequence[LevelFigures]) -> Iterator[Metric]:
    questions = GaugeMetricFamily(
        "rlcm_live_questions",
        "Questions under a guarantee since the certificate was first active, by outcome.",
        labels=(*_LEVEL, "outcome"),
    )
    labels = GaugeMetricFamily(
        "rlcm_live_labels",
        "Answers by what is known of them: audited ones right, wrong, expired or waiting, and "
        "others_right and others_wrong, which do not enter the test.",
        labels=(*_LEVEL, "verdict"),
    )
    declined = GaugeMetricFamily(
        "rlcm_live_declined_share",
        "Share of these questions that ended in an abstention.",
        labels=_LEVEL,
    )
    for level in levels:
        names = _names(level)
        questions.add_metric((*names, "answered"), level.answered)
        questions.add_metric((*names, "abstained"), level.questions - level.answered)
        for verdict in _LABELS:
            labels.add_metric((*names, verdict), level.labels[verdict])
        if level.share_declined is not None:
            declined.add_metric(names, level.share_declined)
    yield from (questions, labels, declined)


def _tests(levels: Sequence[LevelFigures]) -> Iterator[Metric]:
    """The tests of the levels that have one."""
    tested = [(_names(level), level.test) for level in levels if level.test is not None]
    for field, text in _TEST.items():
        name = "rlcm_live_risk" if field == "risk" else f"rlcm_live_risk_{field}"
        family = GaugeMetricFamily(name, text, labels=_LEVEL)
        for names, test in tested:
            if (value := getattr(test, field)) is not None:
                family.add_metric(names, value)
        yield family


def _risk_alarms(levels: Sequence[LevelFigures]) -> Metric:
    alarmed = GaugeMetricFamily(
        "rlcm_live_risk_alarmed",
        "1 once labels have shown a risk above alpha; of active certificates.",
        labels=_LEVEL,
    )
    for level in levels:
        if level.test is not None:
            alarmed.add_metric(_names(level), level.test.alarmed_at is not None)
    return alarmed


def _drift(levels: Sequence[LevelFigures]) -> Metric:
    alarmed = GaugeMetricFamily(
        "rlcm_live_drift_alarmed",
        "1 once the test of this statistic has found drift; of active certificates.",
        labels=(*_LEVEL, "statistic"),
    )
    for level in levels:
        for one in level.drift:
            alarmed.add_metric((*_names(level), one.statistic), one.alarmed)
    return alarmed


def _withdrawn(levels: Sequence[LevelFigures], withdrawn: Container[str]) -> Metric:
    family = GaugeMetricFamily(
        "rlcm_live_withdrawn",
        "1 for an active certificate whose guarantee is withdrawn, 0 for the other active ones.",
        labels=("certificate",),
    )
    for name in sorted({level.certificate[:12] for level in levels}):
        family.add_metric((name,), name in withdrawn)
    return family


def _expected(served: Sequence[Certificate]) -> Iterator[Metric]:
    """What calibration says of the active certificates' levels, as lines of reference."""
    levels = [
        ((certificate.id, certificate.risk, f"{level.alpha:g}"), level)
        for certificate in served
        for level in certificate.certified_levels
    ]
    expected: dict[str, tuple[str, Callable[[CertifiedLevel], float | None]]] = {
        "alpha": ("The risk that the level promises at most.", lambda level: level.alpha),
        "risk": ("Risk of the level on the calibration problems.", lambda level: level.risk),
        "risk_upper": ("Upper bound of that risk.", lambda level: level.risk_upper),
        "declined_share": (
            "Share of the calibration problems on which the level abstains.",
            lambda level: 1 - level.share_answered,
        ),
    }
    for name, (text, value_of) in expected.items():
        family = GaugeMetricFamily(f"rlcm_certified_{name}", text, labels=_LEVEL)
        for names, level in levels:
            if (value := value_of(level)) is not None:
                family.add_metric(names, value)
        yield family
