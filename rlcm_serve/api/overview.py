"""`GET /overview`: the current state of the service, collected from its parts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibration import Certificate, Level
from calibration.certificate.report_data import EXIT_EDGES, ReportData
from rlcm_serve.api.context import Context
from rlcm_serve.api.error_responses import document_of, report_unexpected
from rlcm_serve.api.status import status_of
from rlcm_serve.api.wire.calibrations import CalibrationBody
from rlcm_serve.api.wire.certificates import KindBody, LevelBody, ProcedureBody, iso
from rlcm_serve.api.wire.overview import (
    CertificateNow,
    ConfidenceNow,
    EngineNow,
    JobNow,
    LevelNow,
    OverviewBody,
    QuestionsSoFar,
    QueueNow,
    RequestsNow,
    SavedSoFar,
)
from rlcm_serve.errors import DatabaseRefused, NoReport, NotFound, NotReady
from rlcm_serve.solving.guarantees import Guarantees
from rlcm_serve.store.caller import Caller, Scope
from rlcm_serve.telemetry.readout import Readout

if TYPE_CHECKING:
    from rlcm_serve.admission import Admission

PROCESS = secrets.token_hex(4)
"""Tells this process from others of the service."""
JOBS, LOG_LINES = 10, 10
"""Number of jobs shown, the latest ones, and of lines from the end of each log."""


async def overview(context: Context, caller: Caller) -> OverviewBody:
    """The current state of the service; unavailable parts are marked as missing.

    For a caller who may read neither metrics nor all jobs, figures are those of its own questions.
    """
    own = None if caller.may(Scope.METRICS) else caller.key_id
    guarantees = _guarantees(context)  # others may become active while the figures are read
    certificates = guarantees.certificates if guarantees else ()
    readout, reports = await context.database.threads.read(_read, context, certificates, own)
    jobs, jobs_error = await _jobs(context, caller)
    return OverviewBody(
        time=iso(time.time()),
        uptime_s=round(readout.uptime, 3),
        process=PROCESS,
        version=version("rlcm-serve"),
        model=context.model_names[0],
        figures="service" if own is None else "key",
        may_administer=caller.may(Scope.ADMIN),
        engine=await _engine(context, own),
        requests=RequestsNow(
            in_flight=round(readout.total("rlcm_http_requests_in_flight")) if own is None else None
        ),
        queue=_queue(context.admission, own),
        questions=_questions(readout),
        tokens=readout.by_label("rlcm_tokens_total", "kind"),
        saved=_saved(readout),
        exits=readout.by_label("rlcm_exits_total", "reason"),
        confidence=_confidence(readout, certificates, reports),
        certificates=_certificates(guarantees, readout, reports) if guarantees else [],
        unsigned=list(guarantees.unsigned) if guarantees else [],
        jobs=jobs,
        jobs_error=jobs_error,
    )


def _guarantees(context: Context) -> Guarantees | None:
    try:
        return context.service.guarantees
    except NotReady:
        return None


def _read(
    context: Context, certificates: Sequence[Certificate], own: str | None
) -> tuple[Readout, dict[str, ReportData]]:
    """The counters, and the report data by certificate id; may read the database."""
    reports = {}
    for certificate in certificates:
        try:
            reports[certificate.id] = context.certificates.report(certificate.id)
        except (NoReport, NotFound, DatabaseRefused):
            continue
    return context.metrics.readout(own), reports


async def _engine(context: Context, own: str | None) -> EngineNow:
    standing = await status_of(context)
    return EngineNow(
        state=standing.state,
        detail=standing.detail,
        ready=standing.state == "ready",
        restarts=context.service.restarts,
        requests=context.service.engine.in_flight if own is None else None,
    )


def _queue(admission: Admission, own: str | None) -> QueueNow:
    return QueueNow(
        running=admission.running if own is None else admission.running_of(own),
        running_limit=admission.max_running,
        waiting=admission.waiting if own is None else admission.waiting_of(own),
        waiting_limit=admission.max_waiting,
        drain_per_second=admission.drain_rate if own is None else None,
    )


def _questions(readout: Readout) -> QuestionsSoFar:
    def count(**labels: str) -> int:
        return round(readout.total("rlcm_questions_total", **labels))

    failures = readout.by_label("rlcm_question_failures_total", "kind")
    return QuestionsSoFar(
        answered=count(outcome="answered"),
        abstained=count(outcome="abstained"),
        failed=sum(failures.values()),
        guaranteed=count(guarantee="given"),
        unguaranteed=count(guarantee="withheld"),
        failures=failures,
    )


def _saved(readout: Readout) -> SavedSoFar:
    full = readout.total("rlcm_full_budget_tokens_total")
    saved, over = readout.total("rlcm_tokens_saved_total"), readout.total("rlcm_tokens_over_total")
    return SavedSoFar(
        full_budget_tokens=full,
        saved_tokens=saved,
        over_tokens=over,
        share=(saved - over) / full if full > 0 else None,
    )


def _confidence(
    readout: Readout, certificates: Sequence[Certificate], reports: Mapping[str, ReportData]
) -> ConfidenceNow:
    comparable = np.zeros(len(EXIT_EDGES) - 1, dtype=int)
    expected = np.zeros(len(EXIT_EDGES) - 1)
    for certificate in certificates:
        report = reports.get(certificate.id)
        if report is None:
            continue
        comparable += _confidences(readout, certificate=certificate.id)
        for level in certificate.levels:
            served = _served(readout, certificate, level)
            found = report.confidence_at(level.alpha)
            if served and found:
                weight = served * certificate.procedure.samples
                expected += weight * np.array(found) / sum(found)
    now = _confidences(readout)
    is_known = bool(comparable.any() and expected.any())
    return ConfidenceNow(
        edges=EXIT_EDGES,
        now=tuple(now.tolist()),
        comparable=tuple(comparable.tolist()) if is_known else None,
        calibration=tuple((expected / expected.sum()).tolist()) if is_known else None,
    )


def _confidences(readout: Readout, **labels: str) -> npt.NDArray[np.int_]:
    *counts, beyond = readout.histogram("rlcm_sample_confidence", **labels)
    counts[-1] += beyond  # always 0: a confidence is at most 1
    return np.array(counts)


def _certificates(
    guarantees: Guarantees, readout: Readout, reports: Collection[str]
) -> list[CertificateNow]:
    return [
        _certificate(guarantees, one, readout, one.id in reports) for one in guarantees.certificates
    ]


def _certificate(
    guarantees: Guarantees, certificate: Certificate, readout: Readout, has_report: bool
) -> CertificateNow:
    lost = guarantees.withdrawn.get(certificate.id)
    return CertificateNow(
        id=certificate.id,
        risk=certificate.risk,
        promise=certificate.promise.value,
        delta=certificate.delta,
        **dict(ProcedureBody.of(certificate)),
        profiles=list(guarantees.profiles_of(certificate.id)),
        kind=KindBody.of(certificate),
        withdrawn=None if lost is None else lost.reason,
        verified=guarantees.verified(certificate.id).value,
        caveats=list(guarantees.caveats(certificate.id)),
        has_report=has_report,
        levels=[
            _level(level, _served(readout, certificate, level)) for level in certificate.levels
        ],
    )


def _level(level: Level, served: int) -> LevelNow:
    body = LevelBody.from_level(level)
    share_abstained = None if body.share_answered is None else 1 - body.share_answered
    known = body.model_dump(include=set(LevelNow.model_fields))
    return LevelNow(questions=served, share_abstained=share_abstained, **known)


def _served(readout: Readout, certificate: Certificate, level: Level) -> int:
    return round(
        readout.total(
            "rlcm_certified_questions_total",
            certificate=certificate.id,
            alpha=f"{level.alpha:g}",
        )
    )


async def _jobs(context: Context, caller: Caller) -> tuple[list[JobNow], str | None]:
    """The latest jobs, or the reason why they are unavailable."""
    try:
        latest = await context.database.threads.read(
            context.jobs.store.latest, JOBS, LOG_LINES, caller
        )
    except DatabaseRefused as error:
        report_unexpected(error)
        return [], document_of(error).detail
    jobs = map(context.jobs.now, latest)
    told = [CalibrationBody.from_job(job, context.jobs.seconds_left(job)) for job in jobs]
    return [JobNow.model_validate(job) for job in told], None
