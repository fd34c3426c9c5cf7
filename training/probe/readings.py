"""What a probe reads on its validation problems, left beside it for calibrations to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import torch

from calibration.traces.probe_readings import write_probe_readings
from rlcm_serve.answers.grader import AnswerGrader
from rlcm_serve.answers.profile_graders import verdicts_of
from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.engine.model_files import digest_probe
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.recording.inputs import ProbeRollout, map_inputs
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.rollouts import to_rollouts
from rlcm_serve.recording.trained import seen_problems
from rlcm_serve.solving.fingerprints import fingerprint_of
from training.probe.data import FIT_SHARE, ProbeData, split_by_unit


def leave_readings(
    folder: Path,
    recordings: Sequence[ProbeRollout],
    inputs: Path,
    data: ProbeData,
    seed: int,
    problems: Sequence[LabelledProblem],
    identity: EngineIdentity,
) -> None:
    """Writes what the probe in `folder` reads on the problems that its fit did not use.

    Args:
        folder: of the saved probe.
        recordings: all that were recorded for it.
        inputs: the file of their inputs.
        data: the cuts of these recordings.
        seed: of the fit, which split the problems.
        problems: all that were recorded.
        identity: of the engine that recorded them.
    """
    held_out = _validation_problems(recordings, data, seed)
    chosen = [recording for recording in recordings if recording.problem_id in held_out]
    read = list(_with_confidences(chosen, inputs, Probe.load(folder)))
    with AnswerGrader() as grader:
        rollouts = to_rollouts(read, verdicts_of(identity.profile, grader))
    # The familiarity of these questions was not read; nothing here depends on it.
    recorded = replace(identity, probe=digest_probe(folder), familiarity="", familiarity_cutoff=0.0)
    write_probe_readings(folder, rollouts, fingerprint_of(recorded), seen_problems(problems))


def _validation_problems(
    recordings: Sequence[ProbeRollout], data: ProbeData, seed: int
) -> frozenset[str]:
    names = list(dict.fromkeys(recording.problem_id for recording in recordings))
    _, validation_N = split_by_unit(data, FIT_SHARE, seed)
    return frozenset(names[i] for i in torch.unique(data.problem_N[validation_N]).tolist())


def _with_confidences(
    recordings: Sequence[ProbeRollout], inputs: Path, probe: Probe
) -> Iterator[ProbeRollout]:
    """The recordings with what the probe reads; without those that miss a token's statistics."""
    rows_RD = map_inputs(inputs, recordings[0].n_inputs)
    for recording in recordings:
        inputs_ND = rows_RD[recording.first_input : recording.end]
        if not np.isfinite(inputs_ND).all():
            continue
        hidden_NH, statistics_NS = np.split(inputs_ND, [-len(STATISTICS)], axis=1)
        confidence_N = probe.confidence(torch.tensor(hidden_NH), torch.tensor(statistics_NS))
        readings = zip(recording.readings, confidence_N.tolist(), strict=True)
        yield msgspec.structs.replace(
            recording,
            readings=tuple(
                msgspec.structs.replace(reading, confidence=confidence)
                for reading, confidence in readings
            ),
        )
