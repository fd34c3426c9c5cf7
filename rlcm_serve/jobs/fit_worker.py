"""The process in which certificates are fitted and recomputed, so that serving keeps its pace.

Runs as `python -m rlcm_serve.jobs.fit_worker {fit,verify} FOLDER`, with all that goes in and out as
files of that folder, whose names are below. It begins once `GO` comes in, and ends with `REFUSED`
if the numbers do not support what is asked, the reason in `ERROR`. When its standard input ends,
and so its parent, it removes the folder and ends too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

from calibration import Certificate, Traces, certify, read_traces, verify, write_traces
from calibration.errors import CalibrationError
from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.recording.rollouts import RecordedRollout, to_rollouts
from rlcm_serve.store.job import CalibrationRequest

RECORDINGS, FINGERPRINT, REQUEST = "recordings.jsonl", "fingerprint.json", "request.json"
TRACES, CERTIFICATE = "traces.parquet", "certificate.json"
DIFFERENCES, REPORT_DATA, ERROR = "differences.json", "report_data.json", "error.txt"
REFUSED = 3
GO = b"\n"

_NICE = 10
"""Behind everything that serves."""


def fit(folder: Path) -> None:
    """Recordings to traces, these to a certificate, both to its report data.

    The traces stay if there can be no certificate.
    """
    recordings = (folder / RECORDINGS).read_text("utf-8").splitlines()
    asked = json.loads((folder / REQUEST).read_text("utf-8"))
    request = CalibrationRequest.from_json(asked["request"])
    with AnswerGrader() as grader:
        rollouts = to_rollouts(
            (RecordedRollout.from_json(json.loads(one)) for one in recordings), grader
        )
    fingerprint = Fingerprint.from_json(json.loads((folder / FINGERPRINT).read_text("utf-8")))
    write_traces(folder / TRACES, rollouts, fingerprint)
    traces = read_traces(folder / TRACES)
    certificate = certify(
        traces,
        risk=request.risk,
        alphas=request.alphas,
        delta=request.delta,
        promise=request.promise,
        samples=request.samples,
        vote=request.vote,
        method=request.method,
        created=asked["created"],
    )
    certificate.save(folder / CERTIFICATE)
    report_data(folder, certificate, traces)


def recompute(folder: Path) -> None:
    """Lists how a certificate differs from its traces; if it does not, writes its report data."""
    certificate, traces = Certificate.load(folder / CERTIFICATE), read_traces(folder / TRACES)
    differences = verify(certificate, traces)
    (folder / DIFFERENCES).write_text(json.dumps(differences), "utf-8")
    if not differences:
        report_data(folder, certificate, traces)


def report_data(folder: Path, certificate: Certificate, traces: Traces) -> None:
    """Writes a certificate's report data. If that fails, the certificate is still valid."""
    from calibration.report.build_data import build_report_data  # with all that reports need

    none = f"no report data for certificate {certificate.id}"
    try:
        made = build_report_data(certificate, traces)
        made.save(folder / REPORT_DATA)
    except CalibrationError as error:
        sys.stderr.write(f"{none}: {error}\n")
    except Exception:  # noqa: BLE001  # whatever else fails here, the certificate stands
        sys.stderr.write(f"{none}:\n{traceback.format_exc()}")


def main() -> int:
    """Does what `argv` says.

    Returns:
        The exit status.
    """
    command, folder = sys.argv[1], Path(sys.argv[2])
    os.nice(_NICE)
    if os.read(0, len(GO)) != GO:
        _give_up(folder)
    threading.Thread(target=_end_with_parent, args=[folder], daemon=True).start()
    try:
        {"fit": fit, "verify": recompute}[command](folder)
    except CalibrationError as error:
        # The folder's name means nothing to anyone.
        (folder / ERROR).write_text(str(error).replace(f"{folder}/", ""), "utf-8")
        return REFUSED
    return 0


def _end_with_parent(folder: Path) -> None:
    while os.read(0, 1024):  # not sys.stdin, which an exit would wait for
        pass
    _give_up(folder)


def _give_up(folder: Path) -> NoReturn:
    shutil.rmtree(folder, ignore_errors=True)  # nobody else will
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
