"""What the page's demo shows: the levels of a certificate and recorded questions to try them on."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from calibration import SELECTIVE, Certificate, Promise
from calibration.certificate.report_data import LevelFigures, ReportData, report_data_path
from calibration.errors import CertificateError
from calibration.traces.recorded import RecordedSeries
from rlcm_serve.page.assets import Asset, asset_of


@functools.lru_cache(maxsize=4)
def demo_of(files: tuple[Path, ...], given: frozenset[str] | None = None) -> Asset | None:
    """The demo's data as JSON; None if no certificate has recorded questions.

    It is read from the files with which the service was started, so it needs no engine. Of several
    certificates, the first that promises what the demo says is taken.

    Args:
        files: certificate files.
        given: ids of the certificates whose guarantee is given; no other is shown. None while the
            engine starts for the first time, when that is not known.
    """
    for file in files:
        found = _read(file, given)
        if found is not None:
            text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
            return asset_of(text.encode(), ".json")
    return None


def _read(file: Path, given: frozenset[str] | None) -> dict[str, Any] | None:
    try:
        certificate = Certificate.load(file)
        if not is_promise_of_demo(certificate):
            return None
        if given is not None and certificate.id not in given:
            return None
        report = ReportData.load(report_data_path(file))
    except (CertificateError, OSError):  # the start, or whoever asks for it, says what is wrong
        return None
    if report.recorded is None or report.certificate != certificate.digest:
        return None
    return _body(certificate, report, report.recorded)


def is_promise_of_demo(certificate: Certificate) -> bool:
    """Whether a certificate promises what the demo says: of the answers of one sample, at most a
    share is wrong, on average over questions, whichever alpha a visitor moves to.
    """
    return (
        certificate.risk == SELECTIVE.name
        and certificate.procedure.samples == 1
        and certificate.promise is Promise.SIMULTANEOUS
        and (certificate.groups is None or certificate.groups.by_size)
    )


def _body(certificate: Certificate, report: ReportData, recorded: RecordedSeries) -> dict[str, Any]:
    levels = certificate.certified_levels
    figures = {
        one.alpha: one.test if recorded.on_test else one.calibration for one in report.levels
    }
    return {
        "certificate": certificate.id,
        "delta": certificate.delta,
        "on_test": recorded.on_test,
        "n_problems": recorded.n_problems,
        "levels": [
            {
                "alpha": one.alpha,
                "policy": one.policy.to_scalars(),
                "measured": _measured(figures.get(one.alpha)),
            }
            for one in levels
        ],
        "questions": [
            {
                "question": one.question,
                "tokens": one.tokens,
                "confidence": one.confidence,
                "answer_tokens": one.answer_tokens,
                "right": one.right,
            }
            for one in recorded.questions
        ],
    }


def _measured(figures: LevelFigures | None) -> dict[str, float] | None:
    """The risk on the whole series with its 95% interval; None where it is not known."""
    if figures is None or figures.risk is None:
        return None
    if figures.risk_low is None or figures.risk_high is None:
        return None
    return {"risk": figures.risk, "low": figures.risk_low, "high": figures.risk_high}
