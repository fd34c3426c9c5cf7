"""`rlcm train probe`: recordings, fit, and the probe's folder."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from calibration.traces.traces import unit_of
from rlcm_serve.engine.launch import EngineSettings
from rlcm_serve.recording.inputs import inputs_beside
from rlcm_serve.recording.offline import record_inputs
from rlcm_serve.recording.problems import read_problems, repeated, require_labels
from training.errors import TrainingRefused
from training.folders import require_writable
from training.probe.card import write_probe_card
from training.probe.data import read_probe_data, units_to_fit
from training.probe.fit import ProbeTraining, fit_probe
from training.probe.metrics import ProbeMetrics
from training.probe.readings import leave_readings


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """What to record, and where things go.

    Attributes:
        data: JSON Lines of labelled problems.
        out: folder for the probe.
        journal: recording log, from which an interrupted run continues.
        rollouts: of each problem.
        samples: K, the forced answers at each reading.
        training: settings of the fit.
    """

    data: Path
    out: Path
    journal: Path
    rollouts: int
    samples: int
    training: ProbeTraining


def train_probe(settings: EngineSettings, run: ProbeRun, console: Console) -> ProbeMetrics:
    """Records the problems, fits a probe, and writes it with its card into `run.out`.

    What the probe reads on its validation problems goes there as well (`leave_readings`).

    A metric that the held-out problems leave undefined is None; the probe is kept all the same.

    Raises:
        TrainingRefused: there are too few problems, or some twice, or `run.out` cannot be written.
            All is checked before anything is recorded.
        RequestRefused: a problem has no label; or as `record_inputs`.
        Conflict, ModelRefused, EngineDead: as `record_inputs`.
    """
    problems = read_problems(run.data)
    require_labels(problems, "a probe learns from labels; leave them out, or give the right answer")
    if again := repeated(problems):
        raise TrainingRefused(
            f"{len(again)} problems have the text of another one and do not share its group, "
            f"{again[0]!r} among them: the probe would be judged on problems it was fitted to; "
            "leave them out, or give equal ones the same group"
        )
    units_to_fit(len({unit_of(one.id, one.group) for one in problems}))
    require_writable(run.out)
    identity, recordings = asyncio.run(
        record_inputs(settings, run.data, run.journal, run.rollouts, run.samples, console)
    )
    inputs = inputs_beside(run.journal)
    found = read_probe_data(recordings, inputs)
    probe, metrics = fit_probe(found, run.training, report=console.print)
    probe.save(run.out, identity.checkpoint_interval)
    leave_readings(run.out, recordings, inputs, found, run.training.seed, problems, identity)
    write_probe_card(run.out, metrics, run.training, identity, run.rollouts, run.samples)
    return metrics
