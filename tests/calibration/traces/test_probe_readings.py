from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from calibration import CalibrationError, Rollout
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.probe_readings import (
    read_problem_digests,
    read_validation,
    write_probe_readings,
)


def test_they_are_read_for_the_traces_of_the_same_probe_alone(
    tmp_path: Path, make_rollout: Callable[..., Rollout], fingerprint: Fingerprint
) -> None:
    digests = {"p1": "d1", "p2": "d2"}
    write_probe_readings(tmp_path, [make_rollout()], fingerprint, digests)
    other_sampling = replace(fingerprint, temperature=0.1)
    found = read_validation(tmp_path, other_sampling)
    assert found is not None
    assert (found.problem_ids, found.fingerprint) == (("p1",), other_sampling)
    assert read_problem_digests(tmp_path) == digests
    with pytest.raises(CalibrationError, match="is not the one that the traces were recorded with"):
        read_validation(tmp_path, replace(fingerprint, probe="another"))


def test_a_probe_without_them(tmp_path: Path, fingerprint: Fingerprint) -> None:
    assert read_validation(tmp_path, fingerprint) is None
    assert read_problem_digests(tmp_path) == {}
