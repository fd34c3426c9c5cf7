"""Fits and verifies certificates in a process of its own, so that serving does not slow down.

Runs as `python -m rlcm_serve.jobs.fit_worker {fit,verify} FOLDER MEMORY ROWS`. Input and output are
files in that folder, named below. It starts when it reads `GO` from standard input. If the request
cannot be fulfilled, it exits with status `REFUSED` and writes the reason to `ERROR`; with status
`FULL` if the disk has no space, and `OUT_OF_MEMORY` without enough memory. When standard input
closes, its parent is dead; it then removes the folder and exits.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

from calibration import (
    Certificate,
    Traces,
    certify,
    certify_kinds,
    read_traces,
    verify,
    write_traces,
)
from calibration.certificate.sequential import begin_sequential, certify_sequential
from calibration.errors import CalibrationError
from calibration.traces.bounds import Bounds
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.traces import add_traces
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.profile_graders import verdicts_named
from rlcm_serve.recording.rollouts import RecordedRollout, to_rollouts
from rlcm_serve.store.job import CalibrationRequest

RECORDINGS, FINGERPRINT, REQUEST = "recordings.jsonl", "fingerprint.json", "request.json"
TRACES, CERTIFICATE = "traces.parquet", "certificate.json"
EXTENDED, EARLIER = "extended.json", "earlier.parquet"
KINDS = "kinds"
"""Folder of the certificates of single kinds, each in a folder of its own with its report data."""
DIFFERENCES, REPORT_DATA, ERROR = "differences.json", "report-data.json", "error.txt"
REFUSED, FULL, OUT_OF_MEMORY = 3, 4, 5
GO = b"\n"

_NICE = 10
"""Serving has precedence."""
_UNPACKED = 0.25
"""Share of the memory that traces may take as they come out of their file."""


def fit(folder: Path) -> None:
    """Writes traces, certificates and report data.

    The traces stay if no certificate can be fitted.
    """
    job = json.loads((folder / REQUEST).read_text("utf-8"))
    request = CalibrationRequest.from_json(job["request"])
    fingerprint = Fingerprint.from_json(json.loads((folder / FINGERPRINT).read_text("utf-8")))
    with AnswerGrader() as grader, (folder / RECORDINGS).open(encoding="utf-8") as lines:
        rollouts = to_rollouts(
            (RecordedRollout.from_json(json.loads(line)) for line in lines),
            verdicts_named(fingerprint.grader, grader),
        )
    write_traces(folder / TRACES, rollouts, fingerprint)
    if request.extends is not None:
        add_traces(folder / EARLIER, folder / TRACES)
    traces = read_traces(folder / TRACES)
    first, *of_kinds = _certified(folder, traces, request, job["created"])
    _write(folder, first, traces)
    for number, certificate in enumerate(of_kinds):
        own = folder / KINDS / f"{number:06d}"
        own.mkdir(parents=True, exist_ok=True)  # of an attempt that was killed
        _write(own, certificate, traces)


def _write(folder: Path, certificate: Certificate, traces: Traces) -> None:
    certificate.save(folder / CERTIFICATE)
    write_report_data(folder, certificate, traces)


def _certified(
    folder: Path, traces: Traces, request: CalibrationRequest, created: str
) -> list[Certificate]:
    """The certificate, followed by those of single kinds."""
    if request.extends is not None:
        begun = Certificate.load(folder / EXTENDED)
        if begun.label_share is not None:
            raise CalibrationError(
                f"certificate {begun.id} has labels of a share of its problems, which no job "
                "draws: add problems with `rlcm extend`, and upload the result with its traces"
            )
        return [certify_sequential(traces, begun, created=created)]
    settings: dict[str, Any] = {
        "risk": request.risk,
        "alphas": request.alphas,
        "delta": request.delta,
        "promise": request.promise,
        "samples": request.samples,
        "vote": request.vote,
        "method": request.method,
        "average": request.average,
        "max_group_size": request.max_group_size,
        "created": created,
    }
    if request.sequential:
        return [begin_sequential(traces, **settings)]
    settings |= {"bounds": dict(request.bounds), "next_questions": request.next_questions}
    if request.by is None:
        return [certify(traces, **settings)]
    return certify_kinds(traces, by=request.by, **settings)


def recompute(folder: Path, bounds: Bounds | None = None) -> None:
    """Writes what in a certificate does not follow from its traces, else its report data."""
    certificate = Certificate.load(folder / CERTIFICATE)
    traces = read_traces(
        folder / TRACES,
        bounds,
        by=certificate.kinds_column,
        keep_unlabelled=certificate.sequential is not None,
    )
    differences = verify(certificate, traces)
    (folder / DIFFERENCES).write_text(json.dumps(differences), "utf-8")
    if not differences:
        write_report_data(folder, certificate, traces)


def write_report_data(folder: Path, certificate: Certificate, traces: Traces) -> None:
    """Writes what reports show of a certificate. If that fails, the certificate is still valid."""
    from calibration.report.build_data import build_report_data  # imports plotting libraries

    try:
        build_report_data(certificate, traces).save(folder / REPORT_DATA)
    except CalibrationError as error:
        sys.stderr.write(f"no report data for certificate {certificate.id}: {error}\n")
    except Exception:  # noqa: BLE001  # no failure here makes the certificate invalid
        trace = traceback.format_exc()
        sys.stderr.write(f"no report data for certificate {certificate.id}:\n{trace}")


def main() -> int:
    """Runs the command in `argv`.

    Returns:
        The exit status.
    """
    command, folder = sys.argv[1], Path(sys.argv[2])
    memory, rows = int(sys.argv[3]), int(sys.argv[4])
    os.nice(_NICE)
    if os.read(0, len(GO)) != GO:
        _clean_up_and_exit(folder)
    threading.Thread(target=_end_with_parent, args=[folder], daemon=True).start()
    # Not RLIMIT_AS: libraries reserve more addresses than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    try:
        if command == "fit":
            fit(folder)
        else:
            recompute(folder, Bounds(rows, int(memory * _UNPACKED)))
    except MemoryError:
        return OUT_OF_MEMORY
    except CalibrationError as error:
        # The name of a temporary folder means nothing to users.
        (folder / ERROR).write_text(str(error).replace(f"{folder}/", ""), "utf-8")
        return REFUSED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return FULL
    return 0


def _end_with_parent(folder: Path) -> None:
    while os.read(0, 1024):  # not sys.stdin: exiting would wait for it
        pass
    _clean_up_and_exit(folder)


def _clean_up_and_exit(folder: Path) -> NoReturn:
    shutil.rmtree(folder, ignore_errors=True)  # its owner is dead
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
