from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import CalibrationError, Rollout, TraceError
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.probe_readings import (
    READINGS_FILE,
    SeenProblems,
    read_seen_problems,
    read_validation,
    write_probe_readings,
    write_seen_problems,
)

SEEN = SeenProblems({"p1": "d1", "p2": "d2"}, frozenset({"n1"}))


def test_they_are_read_for_the_traces_of_the_same_probe_alone(
    tmp_path: Path, make_rollout: Callable[..., Rollout], fingerprint: Fingerprint
) -> None:
    write_probe_readings(tmp_path, [make_rollout()], fingerprint, SEEN)
    other_sampling = replace(fingerprint, temperature=0.1)
    found = read_validation(tmp_path, other_sampling)
    assert found is not None
    assert (found.problem_ids, found.fingerprint) == (("p1",), other_sampling)
    assert read_seen_problems(tmp_path / READINGS_FILE) == SEEN
    with pytest.raises(CalibrationError, match="is not the one that the traces were recorded with"):
        read_validation(tmp_path, replace(fingerprint, probe="another"))


def test_a_probe_without_them(tmp_path: Path, fingerprint: Fingerprint) -> None:
    assert read_validation(tmp_path, fingerprint) is None
    assert read_seen_problems(tmp_path / READINGS_FILE) == SeenProblems()


def test_a_probe_without_validation_problems_still_says_what_trained_it(
    tmp_path: Path, fingerprint: Fingerprint
) -> None:
    write_seen_problems(tmp_path / READINGS_FILE, SEEN)
    assert read_validation(tmp_path, fingerprint) is None
    assert read_seen_problems(tmp_path / READINGS_FILE) == SEEN


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / READINGS_FILE).write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match=r"readings\.parquet cannot be read"):
        read_seen_problems(tmp_path / READINGS_FILE)
