"""`GET /monitoring`: the promise of every certificate, held against what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from calibration import Certificate
from calibration.certificate.levels import CertifiedLevel
from rlcm_serve.api.context import Context
from rlcm_serve.api.wire.certificates import iso, iso_or_none
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
from rlcm_serve.api.wire.monitoring.shadows import ShadowNow
from rlcm_serve.errors import NotFound, NotReady
from rlcm_serve.monitoring.records import EventKind, MonitorEvent, runbook_of
from rlcm_serve.store.answers.figures import (
    LevelFigures,
    MonitoringFigures,
    TestFigures,
)
from rlcm_serve.store.shadows.figures import ShadowFigures

Guarantee = Literal["given", "withdrawn", "restored", "void"]


def monitoring_body(context: Context, figures: MonitoringFigures) -> MonitoringBody:
    """The figures on the wire. Reads certificates, so it runs in a thread."""
    known = _voids(context)
    voids = known or {}
    of_certificate: dict[str, list[LevelFigures]] = {}
    for level in figures.levels:
        of_certificate.setdefault(level.certificate, []).append(level)
    found = []
    settings = context.settings
    for digest, levels in of_certificate.items():
        certificate = _certificate(context, digest)
        if certificate is not None:
            runbooks, void = settings.runbook_url, voids.get(digest)
            active = digest in voids
            found.append(
                _monitored(certificate, levels, figures, runbooks, active=active, void=void)
            )
    return MonitoringBody(
        time=iso(figures.time),
        enabled=settings.monitor,
        behind_s=None if figures.looked is None else max(0.0, figures.time - figures.looked),
        audit=AuditNow(
            share=settings.audit_share,
            deadline_s=settings.audit_deadline_s,
            waiting=figures.waiting,
            oldest=iso_or_none(figures.oldest),
        ),
        certificates_known=known is not None,
        certificates=sorted(found, key=lambda one: not one.active),
        events=[_event(event, settings.runbook_url) for event in figures.events],
    )


def _voids(context: Context) -> dict[str, str | None] | None:
    """Why the engine voids each active certificate, by digest; None if none is known yet."""
    try:
        served = context.service.guarantees
    except NotReady:
        return None
    return {one.digest: served.void(one.id) for one in served.certificates}


def _certificate(context: Context, digest: str) -> Certificate | None:
    """None if it is neither stored nor in a file here, but served by another process."""
    try:
        found = context.certificates.get(digest[:12])
    except NotFound:
        return None
    return found if found.digest == digest else None


def _monitored(
    certificate: Certificate,
    levels: list[LevelFigures],
    figures: MonitoringFigures,
    runbooks: str | None,
    *,
    active: bool,
    void: str | None,
) -> MonitoredCertificate:
    lost = figures.withdrawn.get(certificate.id)
    guarantee: Guarantee = "given" if void is None else "void"
    if lost is not None:
        guarantee = "withdrawn" if lost.restored is None else "restored"
    known = {one.alpha: one for one in certificate.certified_levels}
    since = None if lost is None else lost.restored or lost.since
    return MonitoredCertificate(
        id=certificate.id,
        risk=certificate.risk,
        delta=certificate.delta,
        active=active,
        guarantee=guarantee,
        why=void if lost is None else lost.reason,
        since=iso_or_none(since),
        runbook=None if lost is None else runbook_of(EventKind.WITHDRAWN, runbooks),
        levels=[_level(level, known) for level in levels if level.alpha in known],
    )


def _level(level: LevelFigures, known: Mapping[float, CertifiedLevel]) -> MonitoredLevel:
    certified = known[level.alpha]
    return MonitoredLevel(
        alpha=level.alpha,
        delta=level.delta,
        risk=certified.risk,
        risk_upper=certified.risk_upper,
        questions=level.questions,
        answered=level.answered,
        share_declined=level.share_declined,
        share_declined_expected=1 - certified.share_answered,
        labels=LabelCounts(**level.labels),
        test=None if level.test is None else _test(level.test),
        shadow=None if level.shadow is None else _shadow(level.shadow),
        drift=[DriftNow.model_validate(one) for one in level.drift],
        drift_alarmed_at=iso_or_none(level.drift_alarmed_at),
        history=[HistoryPoint(**row | {"time": iso(row["time"])}) for row in level.history],
    )


def _test(test: TestFigures) -> LabelTest:
    return LabelTest(
        labels=test.labels,
        answers=test.answers,
        behind=test.behind,
        risk=test.risk,
        low=test.low,
        high=test.high,
        log_wealth=test.log_wealth,
        threshold=test.threshold,
        alarmed=test.alarmed_at is not None,
        alarmed_at=iso_or_none(test.alarmed_at),
    )


def _shadow(one: ShadowFigures) -> ShadowNow:
    shown = asdict(one) | {"above": one.above_at is not None, "above_at": iso_or_none(one.above_at)}
    return ShadowNow(**shown)


def _event(event: MonitorEvent, runbooks: str | None) -> MonitoringEventBody:
    return MonitoringEventBody(
        number=event.number,
        time=iso(event.time),
        certificate=event.certificate[:12],
        alpha=event.alpha,
        what=event.what.value,
        text=event.text,
        statistics=list(event.figures.get("statistics", [])),
        action=event.action.value,
        runbook=runbook_of(event.what, runbooks),
        hook=event.hook.value,
    )
