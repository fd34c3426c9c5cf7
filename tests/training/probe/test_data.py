"""Of a probe's data: each recorded cut with its inputs, its target and its problem."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from rlcm_serve.engine.worker.probe import STATE_ALONE, STATE_AND_TOKENS
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.recording.inputs import InputsFile, ProbeRollout
from rlcm_serve.recording.rollouts import RecordedReading
from training.errors import TrainingRefused
from training.probe import data
from training.probe.data import chunks, read_probe_data

H = 3
D = H + len(STATISTICS)


def a_recording(problem: str, first: int, *cuts: int) -> ProbeRollout:
    readings = tuple(
        RecordedReading(cut, math.nan, ("1",) * 4, (True,) * i + (False,) * (4 - i), 3)
        for i, cut in enumerate(cuts)
    )
    return ProbeRollout(
        problem, first, None, (1,), (2,), True, readings, first_input=first, n_inputs=D
    )


def write(path: Path, count: int) -> np.ndarray:
    """Rows of which the first number says which row it is."""
    rows_RD = np.random.default_rng(0).normal(size=(count, D)).astype(np.float32)
    rows_RD[:, 0] = np.arange(count)
    with InputsFile(path, []) as file:
        file.append(rows_RD)
    return rows_RD


def test_each_cut_has_its_inputs_target_and_problem(tmp_path: Path) -> None:
    rows_RD = write(tmp_path / "x", 8)
    # In the order of problems, which is not the order in which they ended.
    recordings = [a_recording("a", 5, 16, 32, 40), a_recording("b", 0, 16, 20)]
    recordings.append(a_recording("a", 2, 16, 32, 33))
    found = read_probe_data(recordings, tmp_path / "x")
    assert found.problem_N.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert found.tokens_N.tolist() == [16, 20, 16, 32, 33, 16, 32, 40]
    assert found.target_N.tolist() == [0, 0.25, 0, 0.25, 0.5, 0, 0.25, 0.5]
    np.testing.assert_array_equal(found.hidden_NH.numpy(), rows_RD[:, :H])
    picked = torch.tensor([7, 1])
    np.testing.assert_array_equal(found.inputs(STATE_ALONE, picked).numpy(), rows_RD[[7, 1], :H])
    np.testing.assert_array_equal(found.inputs(STATE_AND_TOKENS, picked).numpy(), rows_RD[[7, 1]])


def test_problems_of_one_group_are_one_unit(tmp_path: Path) -> None:
    write(tmp_path / "x", 4)
    names = {"a": "g", "b": None, "c": "g", "g": None}
    recordings = [
        msgspec.structs.replace(a_recording(name, first, 1), group=group)
        for first, (name, group) in enumerate(names.items())
    ]
    found = read_probe_data(recordings, tmp_path / "x")
    assert found.unit_N is not None
    assert found.unit_N.tolist() == [0, 1, 0, 2]


def test_rows_of_rollouts_that_are_not_wanted_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "x", 8)
    found = read_probe_data([a_recording("a", 5, 1, 2), a_recording("b", 1, 3)], tmp_path / "x")
    assert found.hidden_NH[:, 0].tolist() == [1, 5, 6]
    assert found.tokens_N.tolist() == [3, 1, 2]


def test_cuts_whose_inputs_are_not_finite_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "_CHUNK", 2)
    rows_RD = write(tmp_path / "x", 5)
    rows_RD[3, -1] = math.nan
    rows_RD.tofile(tmp_path / "x")
    found = read_probe_data([a_recording("a", 0, 1, 2, 3, 4, 5)], tmp_path / "x")
    assert found.hidden_NH[:, 0].tolist() == [0, 1, 2, 4]
    assert found.tokens_N.tolist() == [1, 2, 3, 5]
    rows_RD[:] = math.inf
    rows_RD.tofile(tmp_path / "x")
    with pytest.raises(TrainingRefused, match="no finite inputs"):
        read_probe_data([a_recording("a", 0, 1, 2)], tmp_path / "x")


def test_a_mask_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_CHUNK", 2)
    on_N = torch.tensor([True, False, True, True])
    assert [part.tolist() for part in chunks(on_N)] == [[0, 2], [3]]
