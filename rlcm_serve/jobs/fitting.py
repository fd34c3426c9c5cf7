"""Fits and verifies certificates in a separate process, from the event loop."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from calibration import Certificate
from calibration.certificate.report_data import ReportData
from calibration.errors import CalibrationError
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.errors import RequestRefused, StorageFull
from rlcm_serve.jobs import fit_worker as worker
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.store.connection.faults import FULL, storing
from rlcm_serve.store.job import CalibrationRequest

_PREFIX = "rlcm-fit-"


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of a fit.

    Attributes:
        traces: Parquet.
        certificate: None if none can be fitted.
        report: what reports show of the certificate; None if it could not be computed.
        refusal: why there is no certificate.
    """

    traces: bytes
    certificate: Certificate | None
    report: ReportData | None
    refusal: str | None


async def fit(
    recordings: Iterable[RecordedRollout],
    fingerprint: Fingerprint,
    request: CalibrationRequest,
    created: str,
) -> Fitted:
    """Fits a certificate as `calibration.certificate.certify` does. Cancelling ends the process.

    Args:
        recordings: of all problems and rollouts, read in another thread.
        fingerprint: of the engine and grader that recorded them.
        request: risk, levels and procedure to fit.
        created: ISO date for the certificate.

    Raises:
        CalibrationError: the recordings cannot be read as traces.
        WorkerFailed: the process ended without a result.
        StorageFull: the disk has no space for its files.
    """

    def write(folder: Path) -> None:
        with (folder / worker.RECORDINGS).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(one.to_json()) + "\n" for one in recordings)
        (folder / worker.FINGERPRINT).write_text(json.dumps(fingerprint.to_json()), "utf-8")
        job = {"request": request.to_json(), "created": created}
        (folder / worker.REQUEST).write_text(json.dumps(job), "utf-8")

    def read(folder: Path, refusal: str | None) -> Fitted:
        if not (folder / worker.TRACES).exists():
            raise CalibrationError(refusal or "no traces were written")
        certificate = None if refusal else Certificate.load(folder / worker.CERTIFICATE)
        traces = (folder / worker.TRACES).read_bytes()
        return Fitted(traces, certificate, _report_data(folder) if certificate else None, refusal)

    with TemporaryDirectory(prefix=_PREFIX) as name:
        folder = Path(name)
        refusal = await _run("fit", folder, write)
        return await asyncio.to_thread(read, folder, refusal)


async def require_verified(certificate: Certificate, traces: Path) -> ReportData | None:
    """Returns if every figure of a certificate follows from these traces.

    Args:
        certificate: to recompute.
        traces: absolute path of a Parquet file.

    Returns:
        What reports show of the certificate; None if it could not be computed.

    Raises:
        RequestRefused: some figures do not follow, and the message lists them; or the traces
            belong to another certificate.
        WorkerFailed: the process ended without a result.
        StorageFull: the disk has no space for its files.
    """

    def write(folder: Path) -> None:
        certificate.save(folder / worker.CERTIFICATE)
        (folder / worker.TRACES).symlink_to(traces)

    with TemporaryDirectory(prefix=_PREFIX) as name:
        folder = Path(name)
        if refusal := await _run("verify", folder, write):
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


def _report_data(folder: Path) -> ReportData | None:
    file = folder / worker.REPORT_DATA
    return ReportData.load(file) if file.exists() else None


class WorkerFailed(RuntimeError):
    """The fitting process ended by an error or a signal; its output is in the log."""


async def _run(command: str, folder: Path, write: Callable[[Path], None]) -> str | None:
    """Runs the worker; returns why it refused, or None.

    The process starts before anything is written, so that it removes the folder if the service
    is killed.
    """
    # -P: modules in the working directory must not replace installed ones.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", worker.__name__, command, str(folder), stdin=PIPE
    )
    try:
        with storing():
            await asyncio.to_thread(write, folder)
        if process.stdin is not None:
            with suppress(RuntimeError, ConnectionError):  # it has ended; its status says why
                process.stdin.write(worker.GO)
        status = await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status == worker.FULL:
        raise StorageFull(f"{FULL.cause}, in {folder.parent}: {FULL.remedy}", FULL.cause)
    if status == worker.REFUSED:
        return (folder / worker.ERROR).read_text("utf-8")
    if status != 0:
        raise WorkerFailed(f"the process that fits certificates ended with status {status}")
    return None
