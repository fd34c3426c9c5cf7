"""The file that `rlcm train probe` leaves beside a probe: the rollouts of its validation problems.

It is a traces file with the confidences of this probe. The probe's fit did not see the labels, so
a calibration can learn from them what would otherwise cost labels of its own.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from calibration.errors import CalibrationError
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import Rollout, to_table
from calibration.traces.traces import Traces, read_traces, write_table

READINGS_FILE = "readings.parquet"
_PROBLEMS_KEY = b"rlcm_probe_problems"


def write_probe_readings(
    folder: Path,
    rollouts: Iterable[Rollout],
    fingerprint: Fingerprint,
    digest_of_problem: Mapping[str, str],
) -> None:
    """Writes the file into a probe's folder.

    Args:
        folder: of the probe.
        rollouts: of the validation problems, with the confidences of the probe.
        fingerprint: what was recorded, with the digest of the probe.
        digest_of_problem: digests of the texts of all problems that trained the probe, by id; also
            of those that its fit used.

    Raises:
        TraceError: a rollout cannot be replayed; nothing is written.
    """
    table = to_table(rollouts, fingerprint)
    packed = json.dumps(dict(digest_of_problem)).encode()
    metadata = {**(table.schema.metadata or {}), _PROBLEMS_KEY: packed}
    path = folder / READINGS_FILE
    write_table(path, table.replace_schema_metadata(metadata), str(path))


def read_validation(folder: Path, fingerprint: Fingerprint) -> Traces | None:
    """The validation rollouts of a probe, to learn a scale from; None if the probe has none.

    They get the fingerprint of the traces that they serve. Whatever else of it differs costs power
    at most: no promise depends on what was learned from other problems.

    Args:
        folder: of the probe.
        fingerprint: of the traces to calibrate on.

    Raises:
        TraceError: the file is damaged.
        CalibrationError: the traces were recorded with another probe.
    """
    path = folder / READINGS_FILE
    if not path.is_file():
        return None
    found = read_traces(path)
    if found.fingerprint is None or found.fingerprint.probe != fingerprint.probe:
        raise CalibrationError(
            f"the probe in {folder} is not the one that the traces were recorded with: give the "
            "folder of that probe, or read the traces again with `rlcm reread`"
        )
    return replace(found, fingerprint=fingerprint)


def read_problem_digests(folder: Path) -> dict[str, str]:
    """Digests of the texts of all problems that trained a probe, by id; {} if it has no readings.

    Raises:
        OSError, pyarrow.ArrowInvalid: the file is damaged.
    """
    path = folder / READINGS_FILE
    if not path.is_file():
        return {}
    packed = (pq.read_schema(path).metadata or {}).get(_PROBLEMS_KEY, b"{}")
    digests: dict[str, str] = json.loads(packed)
    return digests
