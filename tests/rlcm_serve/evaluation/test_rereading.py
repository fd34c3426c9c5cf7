"""Traces read again with another probe: as if that probe had recorded them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calibration import ExitReason, TraceError, read_traces, write_traces
from calibration.traces.table import Reading, Rollout
from rlcm_serve.engine.model_files import digest_probe
from rlcm_serve.engine.worker.probe import STATE_AND_TOKENS, Probe
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.recording.inputs import InputsFile, ProbeRollout
from rlcm_serve.recording.kept_inputs import kept_beside, read_kept_inputs, write_kept_inputs
from rlcm_serve.recording.rollouts import RecordedReading
from rlcm_serve.solving.fingerprints import fingerprint_of
from tests.rlcm_serve.command_line import Rlcm
from tests.rlcm_serve.scripted_engine import IDENTITY

HIDDEN = 3
AT = (16, 32, 40)
PROBLEMS = 300  # more rollouts than are written at a time


def inputs() -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(PROBLEMS * len(AT), HIDDEN + len(STATISTICS)))
    return rows.astype(np.float32)


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    draw = torch.Generator().manual_seed(0)
    columns = HIDDEN + len(STATISTICS)
    weights = [torch.randn(shape, generator=draw) for shape in ((2, columns), (2,), (1, 2), (1,))]
    Probe(*weights, inputs=STATE_AND_TOKENS).save(tmp_path / "probe", 4)
    return tmp_path / "probe"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Traces, and beside them the inputs, appended in another order than that of the rollouts."""
    path, source = tmp_path / "traces.parquet", tmp_path / "log.inputs"
    readings = [Reading(at, 0.5, "7", 0, 1, True) for at in AT]
    rollouts = [
        Rollout(f"p{i}", 0, ExitReason.NATURAL, tuple(readings[:-1]), readings[-1])
        for i in range(PROBLEMS)
    ]
    write_traces(path, rollouts, fingerprint_of(IDENTITY))
    recorded = {}
    with InputsFile(source, []) as file:
        for i in reversed(range(PROBLEMS)):
            first = file.append(inputs()[i * len(AT) : (i + 1) * len(AT)])
            recorded[i] = recording(i, first)
    write_kept_inputs(kept_beside(path), [recorded[i] for i in range(PROBLEMS)], source)
    return path


def recording(number: int, first: int) -> ProbeRollout:
    return ProbeRollout(
        problem_id=f"p{number}",
        rollout=0,
        group=None,
        prompt=[],
        tokens=[],
        natural=True,
        readings=tuple(RecordedReading(at, 0.5, ("7",), (True,), 1) for at in AT),
        first_input=first,
        n_inputs=HIDDEN + len(STATISTICS),
    )


def test_confidences_and_fingerprint_are_those_of_the_probe(
    rlcm: Rlcm, traces: Path, probe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "reread.parquet"
    status, said, _ = rlcm(f"reread {traces} --probe {probe} --out {out}")
    assert status == 0, said
    found, before = read_traces(out), read_traces(traces)
    rows = torch.tensor(inputs())
    expected = Probe.load(probe).confidence(rows[:, :HIDDEN], rows[:, HIDDEN:])
    ordered = [found.problem_ids.index(f"p{i}") for i in range(PROBLEMS)]
    assert found.confidence_RC[ordered].ravel() == pytest.approx(expected.numpy())
    assert found.fingerprint == replace(before.fingerprint, probe=digest_probe(probe))
    assert (found.correct_RC == before.correct_RC).all()


def test_a_probe_for_another_hidden_size_is_refused(
    rlcm: Rlcm, traces: Path, tmp_path: Path
) -> None:
    small = [torch.zeros(shape) for shape in ((2, 2), (2,), (1, 2), (1,))]
    Probe(*small).save(tmp_path / "small", 4)
    status, _, said = rlcm(f"reread {traces} --probe {tmp_path / 'small'} --out {traces}")
    assert status != 0
    assert "states of size 2, but the traces' states have size 3" in said


def test_readings_without_inputs_are_counted(rlcm: Rlcm, traces: Path, probe: Path) -> None:
    few = traces.with_name("few.inputs")
    with InputsFile(few, []) as file:
        file.append(inputs()[: len(AT)])
    write_kept_inputs(kept_beside(traces), [recording(0, 0)], few)
    status, _, said = rlcm(f"reread {traces} --probe {probe} --out {traces}")
    assert status != 0
    assert f"{(PROBLEMS - 1) * len(AT)} of {PROBLEMS * len(AT)} readings have no inputs" in said


def test_traces_recorded_without_inputs_are_refused(rlcm: Rlcm, traces: Path, probe: Path) -> None:
    kept_beside(traces).unlink()
    status, _, said = rlcm(f"reread {traces} --probe {probe} --out {traces}")
    assert status != 0
    assert "rlcm collect --keep-inputs" in said


def test_other_statistics_are_refused(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcm_serve.recording.kept_inputs.DEFINITION", "window=16")
    with pytest.raises(TraceError, match="this release computes 'window=16': collect it again"):
        next(read_kept_inputs(kept_beside(traces)))
