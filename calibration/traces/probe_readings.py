"""The files that training leaves beside a probe and a policy: which problems they have seen.

Their metadata know every problem by a digest. That of a probe is a traces file of its validation
problems, with the confidences of this probe. Its fit did not see their labels, so a calibration can
learn from them what would otherwise cost labels of its own. A policy, and a probe that was trained
beside it, have no validation problems: their files have metadata alone.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from calibration.errors import CalibrationError, TraceError
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import SCHEMA, Rollout, to_table
from calibration.traces.traces import Traces, read_traces, write_table

READINGS_FILE = "readings.parquet"
"""In a probe's folder."""
POLICY_FILE = "training-problems.parquet"
"""In a policy's folder; it has metadata alone."""
_PROBLEMS_KEY = b"rlcm_probe_problems"
_PATTERNS_KEY = b"rlcm_probe_patterns"


@dataclass(frozen=True, slots=True)
class SeenProblems:
    """The problems that trained a policy or a probe, for its fit or for its validation.

    Attributes:
        digest_of_problem: digest of the text, by id.
        patterns: digests of what near-copies of these problems share.
    """

    digest_of_problem: Mapping[str, str] = field(default_factory=dict)
    patterns: frozenset[str] = frozenset()

    def with_later(self, own: Self) -> Self:
        """These and those of a later training; an earlier one whose id is taken gets another."""
        before = {
            id_ if own.digest_of_problem.get(id_, digest) == digest else f"{id_} ({digest})": digest
            for id_, digest in self.digest_of_problem.items()
        }
        merged = {**before, **own.digest_of_problem}
        return type(self)(merged, self.patterns | own.patterns)

    def metadata(self) -> dict[bytes, bytes]:
        """As it is kept in the file."""
        return {
            _PROBLEMS_KEY: json.dumps(dict(self.digest_of_problem)).encode(),
            _PATTERNS_KEY: json.dumps(sorted(self.patterns)).encode(),
        }


def write_probe_readings(
    folder: Path, rollouts: Iterable[Rollout], fingerprint: Fingerprint, seen: SeenProblems
) -> None:
    """Writes the file into a probe's folder.

    Args:
        folder: of the probe.
        rollouts: of the validation problems, with the confidences of the probe.
        fingerprint: what was recorded, with the digest of the probe.
        seen: all problems that trained the probe.

    Raises:
        TraceError: a rollout cannot be replayed; nothing is written.
    """
    table = to_table(rollouts, fingerprint)
    metadata = {**(table.schema.metadata or {}), **seen.metadata()}
    path = folder / READINGS_FILE
    write_table(path, table.replace_schema_metadata(metadata), str(path))


def write_seen_problems(path: Path, seen: SeenProblems) -> None:
    """Writes the file of a policy, or of a probe that has no validation problems."""
    pq.write_table(SCHEMA.empty_table().replace_schema_metadata(seen.metadata()), path)


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
    if not path.is_file() or pq.read_metadata(path).num_rows == 0:
        return None
    found = read_traces(path)
    if found.fingerprint is None or found.fingerprint.probe != fingerprint.probe:
        raise CalibrationError(
            f"the probe in {folder} is not the one that the traces were recorded with: give the "
            "folder of that probe, or read the traces again with `rlcm reread`"
        )
    return replace(found, fingerprint=fingerprint)


def read_seen_problems(path: Path) -> SeenProblems:
    """The problems in such a file; none if there is no file.

    Raises:
        TraceError: the file is damaged.
    """
    if not path.is_file():
        return SeenProblems()
    try:
        metadata = pq.read_schema(path).metadata or {}
        return SeenProblems(
            json.loads(metadata.get(_PROBLEMS_KEY, b"{}")),
            frozenset(json.loads(metadata.get(_PATTERNS_KEY, b"[]"))),
        )
    except (OSError, pa.ArrowInvalid, ValueError) as error:
        raise TraceError(f"{path} cannot be read ({error}): copy its folder again") from error
