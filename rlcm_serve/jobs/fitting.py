"""Fitting and verifying certificates in a process of its own, from the event loop."""

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
from rlcm_serve.errors import RequestRefused
from rlcm_serve.jobs import fit_worker as files
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.store.job import CalibrationRequest

_PREFIX = "rlcm-fit-"


@dataclass(frozen=True, slots=True)
class Fitted:
    """What came of recordings: their traces, and a certificate, or why there can be none.

    `report_data` is None without a certificate, and where it could not be made.
    """

    traces: bytes
    certificate: Certificate | None
    report_data: ReportData | None
    refusal: str | None


async def fit(
    recordings: Iterable[RecordedRollout],
    fingerprint: Fingerprint,
    request: CalibrationRequest,
    created: str,
) -> Fitted:
    """Fits a certificate as `calibration.certificate.certify` does. Cancelling it ends the process.

    Args:
        recordings: of all problems and rollouts, read in another thread.
        fingerprint: what they were made with.
        request: what is fitted.
        created: ISO date to note in the certificate.

    Raises:
        CalibrationError: the recordings cannot be replayed.
        WorkerFailed: the process ended without a result.
    """

    def write(folder: Path) -> None:
        with (folder / files.RECORDINGS).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(one.to_json()) + "\n" for one in recordings)
        (folder / files.FINGERPRINT).write_text(json.dumps(fingerprint.to_json()), "utf-8")
        asked = {"request": request.to_json(), "created": created}
        (folder / files.REQUEST).write_text(json.dumps(asked), "utf-8")

    def read(folder: Path, refusal: str | None) -> Fitted:
        if not (folder / files.TRACES).exists():
            raise CalibrationError(refusal or "no traces were written")
        certificate = None if refusal else Certificate.load(folder / files.CERTIFICATE)
        traces = (folder / files.TRACES).read_bytes()
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
        What it looks like on them; None if that could not be told.

    Raises:
        RequestRefused: some do not, and the message lists them, or the traces are of another
            recording.
        WorkerFailed: the process ended without a result.
    """

    def write(folder: Path) -> None:
        certificate.save(folder / files.CERTIFICATE)
        (folder / files.TRACES).symlink_to(traces)

    with TemporaryDirectory(prefix=_PREFIX) as name:
        folder = Path(name)
        if refusal := await _run("verify", folder, write):
            raise RequestRefused("traces", refusal)
        differences = json.loads((folder / files.DIFFERENCES).read_bytes())
        report_data = await asyncio.to_thread(_report_data, folder)
    if differences:
        raise RequestRefused(
            "traces",
            f"certificate {certificate.id} does not follow from these traces: "
            f"{'; '.join(differences)}; upload the traces it was fitted on, or fit again",
        )
    return report_data


def _report_data(folder: Path) -> ReportData | None:
    file = folder / files.REPORT_DATA
    return ReportData.load(file) if file.exists() else None


class WorkerFailed(RuntimeError):
    """The process that fits ended by a fault or a signal; its own output is in the log."""


async def _run(command: str, folder: Path, write: Callable[[Path], None]) -> str | None:
    """Why the worker refused, None if it did not.

    It is there before anything is written, so that the folder never outlives a service that is
    killed.
    """
    # -P: without what lies in the folder the service was started in.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", files.__name__, command, str(folder), stdin=PIPE
    )
    try:
        await asyncio.to_thread(write, folder)
        if process.stdin is not None:
            with suppress(RuntimeError, ConnectionError):  # it has ended; its status says how
                process.stdin.write(files.GO)
        status = await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status == files.REFUSED:
        return (folder / files.ERROR).read_text("utf-8")
    if status != 0:
        raise WorkerFailed(f"the process that fits certificates ended with status {status}")
    return None
