"""Of `rlcm train probe` on the real engine: the states it learns from, and the probe it leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from calibration import CalibrationError, read_traces
from calibration.traces.probe_readings import (
    READINGS_FILE,
    read_seen_problems,
    read_validation,
)
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.engine.model_files import EMBEDDED_MODEL, ModelFiles
from rlcm_serve.engine.vllm_engine import VllmEngine
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.errors import RequestRefused
from rlcm_serve.recording.inputs import ProbeRollout, inputs_beside
from rlcm_serve.recording.problems import read_problems
from rlcm_serve.recording.trained import require_untrained
from training.probe.data import load_probe_data
from training.probe.fit import ProbeTraining
from training.probe.reference import reference_inputs
from training.probe.train import ProbeRun, train_probe
from training.tasks.problems import Split, sample_problems

pytestmark = pytest.mark.engine

PROBLEMS, ROLLOUTS = 5, 2


SETTINGS = EngineSettings(interval=40, temperature=0.9, needs_probe=False)


def train(folder: Path, problems: int, rollouts: int, settings: EngineSettings) -> ProbeRun:
    """A finished training on the embedded model."""
    data = folder / "data.jsonl"
    drawn = sample_problems(Split.TRAIN, problems, seed=0)
    rows = [{"id": one.id, "problem": one.question, "answer": one.answer} for one in drawn]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = ProbeTraining(width=8, epochs=2)
    run = ProbeRun(data, folder / "probe", folder / "log.jsonl", rollouts, 2, training)
    train_probe(settings, run, Console(quiet=True))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    return train(tmp_path_factory.mktemp("training"), PROBLEMS, ROLLOUTS, SETTINGS)


def recordings(run: ProbeRun) -> list[ProbeRollout]:
    rows = run.journal.read_text().splitlines()[1:]
    return [ProbeRollout.from_json(json.loads(row)) for row in rows]


def stop_ids() -> tuple[int, int]:
    engine = VllmEngine(EngineSettings())
    engine._read_files()
    return engine.stop_ids


def compare_with_a_plain_forward(run: ProbeRun) -> int:
    """Compares the inputs of every recorded reading; returns their number."""
    data = load_probe_data(run.journal)
    assert data.statistics_NS is not None
    for recording in recordings(run):
        hidden_TH, statistics_TS = reference_inputs(
            EMBEDDED_MODEL, recording.prompt, recording.tokens, stop_ids()
        )
        cuts = torch.tensor([reading.tokens for reading in recording.readings]) - 1
        rows = torch.arange(recording.first_input, recording.end)
        torch.testing.assert_close(data.hidden_NH[rows], hidden_TH[cuts], atol=1e-4, rtol=0)
        torch.testing.assert_close(data.statistics_NS[rows], statistics_TS[cuts], atol=1e-4, rtol=0)
    return len(data.target_N)


def test_its_inputs_are_those_of_a_plain_forward(run: ProbeRun) -> None:
    assert len(recordings(run)) == PROBLEMS * ROLLOUTS
    assert compare_with_a_plain_forward(run) > 2 * PROBLEMS * ROLLOUTS


def test_so_are_those_of_a_model_in_two_processes(tmp_path: Path) -> None:
    parallel = replace(SETTINGS, vllm_arguments=("--tensor-parallel-size", "2"))
    assert compare_with_a_plain_forward(train(tmp_path, 3, 1, parallel)) > 6


def test_it_leaves_a_probe_that_is_served(run: ProbeRun) -> None:
    files = ModelFiles.read(EMBEDDED_MODEL, run.out)
    assert files.probe is not None
    assert (files.probe.checkpoint_interval, files.probe.width) == (40, 3 * 8)
    facts = json.loads((run.out / "metrics.json").read_text())
    assert facts["recorded"]["sampling"]["temperature"] == 0.9
    assert torch.isfinite(Probe.load(run.out).hidden_weight).all()


def test_it_leaves_what_the_probe_reads_on_its_validation_problems(run: ProbeRun) -> None:
    """One of five problems; the digests are of all."""
    fingerprint = replace(read_traces(run.out / READINGS_FILE).fingerprint, max_tokens=7)
    left = read_validation(run.out, fingerprint)
    assert left is not None
    assert (left.n_problems, left.n_rollouts) == (1, ROLLOUTS)
    assert left.fingerprint == fingerprint
    assert np.nanmin(left.confidence_RC) > 0
    problems = read_problems(run.data)
    assert {*read_seen_problems(run.out / READINGS_FILE).digest_of_problem} == {
        one.id for one in problems
    }
    with pytest.raises(RequestRefused, match="1 of 1 problems trained the probe"):
        require_untrained(problems[:1], None, run.out)
    with pytest.raises(CalibrationError, match="is not the one that the traces were recorded with"):
        read_validation(run.out, replace(fingerprint, probe="another"))


def test_it_can_be_repeated_on_finished_recordings(run: ProbeRun) -> None:
    before = run.journal.read_bytes(), inputs_beside(run.journal).read_bytes()
    wider = replace(run, training=ProbeTraining(width=16, epochs=2))
    train_probe(SETTINGS, wider, Console(quiet=True))
    assert (run.journal.read_bytes(), inputs_beside(run.journal).read_bytes()) == before
    assert Probe.load(run.out).hidden_weight.shape == (3 * 16, 160)
