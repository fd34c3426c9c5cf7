"""Fits and verifies certificates in a separate process, from the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from calibration import Certificate
from calibration.certificate.report_data import ReportData
from calibration.errors import CalibrationError
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.errors import RequestRefused
from rlcm_serve.jobs import fit_worker as worker
from rlcm_serve.jobs.fit_process import FitLimits, run_worker
from rlcm_serve.own_files import scratch
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.store.connection.faults import storing
from rlcm_serve.store.job import CalibrationRequest

_PREFIX = "fit-"


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of a fit.

    Attributes:
        traces: Parquet.
        certificate: None if none can be fitted.
        report: what reports show of the certificate; None if it could not be computed.
        refusal: why there is no certificate.
        of_kinds: the certificates of single kinds, with their report data.
    """

    traces: bytes
    certificate: Certificate | None
    report: ReportData | None
    refusal: str | None
    of_kinds: tuple[tuple[Certificate, ReportData | None], ...] = ()

    @property
    def made(self) -> tuple[tuple[Certificate, ReportData | None], ...]:
        """All certificates with their report data; that of all kinds comes first."""
        first = () if self.certificate is None else ((self.certificate, self.report),)
        return first + self.of_kinds


@dataclass(frozen=True, slots=True)
class Extended:
    """What a job adds problems to: a sequential certificate, and its traces (Parquet)."""

    certificate: Certificate
    traces: bytes


async def fit(
    recordings: Iterable[RecordedRollout],
    fingerprint: Fingerprint,
    request: CalibrationRequest,
    created: str,
    limits: FitLimits = FitLimits(),  # noqa: B008, frozen
    extended: Extended | None = None,
) -> Fitted:
    """Fits a certificate as `calibration.certificate.certify` does. Cancelling ends the process.

    Args:
        recordings: of all problems and rollouts, read in another thread.
        fingerprint: of the engine and grader that recorded them.
        request: risk, levels and procedure to fit.
        created: ISO date for the certificate.
        limits: of the process; the number of rows is not limited.
        extended: what the problems are added to; the traces of the result are then all of them.

    Raises:
        CalibrationError: the recordings cannot be read as traces.
        RequestRefused: the fit reached a limit.
        WorkerFailed: the process ended without a result.
        StorageFull: the disk has no space for its files.
    """

    def write() -> None:
        with (folder / worker.RECORDINGS).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(one.to_json()) + "\n" for one in recordings)
        (folder / worker.FINGERPRINT).write_text(json.dumps(fingerprint.to_json()), "utf-8")
        if extended is not None:
            extended.certificate.save(folder / worker.EXTENDED)
            (folder / worker.EARLIER).write_bytes(extended.traces)
        job = {"request": request.to_json(), "created": created}
        (folder / worker.REQUEST).write_text(json.dumps(job), "utf-8")

    def read(folder: Path, refusal: str | None) -> Fitted:
        if not (folder / worker.TRACES).exists():
            raise CalibrationError(refusal or "no traces were written")
        traces = (folder / worker.TRACES).read_bytes()
        if refusal:
            return Fitted(traces, None, None, refusal)
        of_kinds = tuple(map(_made, sorted((folder / worker.KINDS).glob("*"))))
        return Fitted(traces, *_made(folder), None, of_kinds)

    with storing():
        own = TemporaryDirectory(prefix=_PREFIX, dir=scratch())
    with own as name:
        folder = Path(name)
        refusal = await run_worker("fit", folder, limits, "data", write)
        return await asyncio.to_thread(read, folder, refusal)


async def require_verified(
    certificate: Certificate,
    traces: Path,
    limits: FitLimits = FitLimits(),  # noqa: B008, frozen
) -> ReportData | None:
    """Returns if every figure of a certificate follows from these traces.

    Args:
        certificate: to recompute.
        traces: absolute path of a Parquet file.
        limits: of the process.

    Returns:
        What reports show of the certificate; None if it could not be computed.

    Raises:
        RequestRefused: some figures do not follow, and the message lists them; or the traces
            belong to another certificate, or are over a limit.
        WorkerFailed: the process ended without a result.
        StorageFull: the disk has no space for its files.
    """

    def write() -> None:
        certificate.save(folder / worker.CERTIFICATE)
        (folder / worker.TRACES).symlink_to(traces)

    with storing():
        own = TemporaryDirectory(prefix=_PREFIX, dir=scratch())
    with own as name:
        folder = Path(name)
        if refusal := await run_worker("verify", folder, limits, "traces", write):
            raise RequestRefused("traces", refusal)
        differences = json.loads((folder / worker.DIFFERENCES).read_bytes())
        report = await asyncio.to_thread(_report_data, folder)
    if differences:
        raise RequestRefused(
            "traces",
            f"certificate {certificate.id} does not follow from these traces: "
            f"{'; '.join(differences)}; upload the traces it was fitted on, or fit again",
        )
    return report


def _made(folder: Path) -> tuple[Certificate, ReportData | None]:
    return Certificate.load(folder / worker.CERTIFICATE), _report_data(folder)


def _report_data(folder: Path) -> ReportData | None:
    file = folder / worker.REPORT_DATA
    return ReportData.load(file) if file.exists() else None
