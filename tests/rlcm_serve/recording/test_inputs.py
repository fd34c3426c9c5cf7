"""Of a probe's inputs in their file: every row is found again, whatever a kill left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from calibration import ExitPolicy
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.core import Rollout
from rlcm_serve.errors import EngineDead, RequestRefused
from rlcm_serve.recording.inputs import (
    InputsFile,
    InputsRecorder,
    ProbeRollout,
    inputs_beside,
    map_inputs,
)
from rlcm_serve.recording.journal import RecordingJournal, record_all
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.recording.rollouts import RecordedReading
from tests.rlcm_serve.scripted_engine import Script, ScriptedEngine

D = 5
PROBLEM = LabelledProblem("p", "1 + 1?", "2")


def rows(count: int, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, D)).astype(np.float32)


def a_rollout(first: int, count: int) -> ProbeRollout:
    readings = tuple(RecordedReading(8 * i, 0.5, ("1",), (True,), 1) for i in range(count))
    return ProbeRollout("p", first, None, (1,), (2,), True, readings, first_input=first, n_inputs=D)


def test_rows_come_back_as_they_went(tmp_path: Path) -> None:
    path, first, second = tmp_path / "x.inputs", rows(3, 1), rows(2, 2)
    with InputsFile(path, []) as file:
        assert (file.append(first), file.append(second.astype(">f4"))) == (0, 3)
    np.testing.assert_array_equal(map_inputs(path, D), np.concatenate((first, second)))


def test_recordings_share_no_file_of_inputs(tmp_path: Path) -> None:
    names = ["qwen2.5-7b", "qwen2.5-14b", "probe.recordings.jsonl", "traces.journal.jsonl"]
    assert [inputs_beside(tmp_path / name).name for name in names] == [
        *("qwen2.5-7b.inputs", "qwen2.5-14b.inputs"),
        *("probe.recordings.inputs", "traces.journal.inputs"),
    ]


def test_what_a_kill_left_is_cut_off_and_the_rest_continues(tmp_path: Path) -> None:
    path = tmp_path / "x.inputs"
    with InputsFile(path, []) as file:
        file.append(rows(3, 1))
        file.append(rows(2, 2))  # killed before the log named them, and in the middle of a row:
    path.write_bytes(path.read_bytes() + b"abc")
    with InputsFile(path, [a_rollout(0, 3)]) as file:
        assert file.append(rows(1, 3)) == 3
    np.testing.assert_array_equal(map_inputs(path, D), np.concatenate((rows(3, 1), rows(1, 3))))


def test_a_file_without_rows_that_the_log_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.inputs"
    with InputsFile(path, []) as file:
        file.append(rows(2, 1))
    with pytest.raises(RequestRefused, match=r"x\.inputs has 40 bytes, but .* name 60: delete"):
        InputsFile(path, [a_rollout(0, 3)])


class EngineWithInputs(ScriptedEngine):
    """Its readings have the inputs of a probe: the number of tokens, D times."""

    def _run(self, number: int, policy: ExitPolicy, budget: int) -> Rollout:
        rollout = super()._run(number, policy, budget)
        readings = tuple(
            replace(one, inputs=np.full(D, one.tokens, np.float32)) for one in rollout.readings
        )
        return replace(rollout, readings=readings)


def record(engine: ScriptedEngine, folder: Path, rollouts: int) -> list[ProbeRollout]:
    with (
        RecordingJournal(ProbeRollout, folder / "log.jsonl", {}) as journal,
        InputsFile(folder / "log.inputs", journal.recordings()) as inputs,
        AnswerGrader() as grader,
    ):
        recorder = InputsRecorder(Recorder(engine, grader, answers=2), inputs)
        return asyncio.run(record_all(recorder, [PROBLEM], rollouts, journal))


def test_recordings_know_their_rows_also_when_they_continue(tmp_path: Path) -> None:
    engine = EngineWithInputs(Script(ends_at=40))
    first = record(engine, tmp_path, 2)
    again = record(engine, tmp_path, 3)
    assert len(engine.policies) == 3
    assert again[:2] == first
    assert sorted(one.first_input for one in again) == [0, 3, 6]
    source_RD = map_inputs(tmp_path / "log.inputs", D)
    for recording in again:
        assert recording.n_inputs == D
        assert source_RD[recording.first_input : recording.end, 0].tolist() == [16, 32, 40]
        assert [reading.tokens for reading in recording.readings] == [16, 32, 40]
        assert all(len(reading.answers) == 2 for reading in recording.readings[:-1])


def test_an_engine_that_records_no_inputs_is_no_use(tmp_path: Path) -> None:
    with pytest.raises(EngineDead, match="without record_inputs"):
        record(ScriptedEngine(Script()), tmp_path, 1)
