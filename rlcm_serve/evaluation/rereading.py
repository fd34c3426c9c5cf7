"""Reads recorded traces again with another probe; no model is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from calibration import TraceError
from calibration.traces.table import with_fingerprint
from rlcm_serve.engine.model_files import digest_probe
from rlcm_serve.engine.weights.probe_files import read_probe
from rlcm_serve.engine.worker.probe import Probe
from rlcm_serve.engine.worker.statistics import STATISTICS
from rlcm_serve.errors import ModelRefused
from rlcm_serve.evaluation.regrading import required_fingerprint
from rlcm_serve.recording.kept_inputs import KeptInputs

ReadingKey = tuple[str, int, int]
"""Problem, rollout, and tokens before the reading."""


def reread(table: pa.Table, inputs: Iterable[KeptInputs], folder: Path) -> pa.Table:
    """The traces with the confidences of another probe, and its digest in the fingerprint.

    Args:
        table: of traces.
        inputs: of their readings; others are ignored.
        folder: of the probe.

    Raises:
        TraceError: the traces have no fingerprint, or a reading has no inputs.
        ModelRefused: the folder holds no probe, or one for another hidden size.
    """
    fingerprint = required_fingerprint(table)
    read = _confidences(inputs, folder)
    columns = [table[name].to_pylist() for name in ("problem_id", "rollout", "tokens")]
    found = np.array([read.get(key, np.nan) for key in zip(*columns, strict=True)])
    if missing := int(np.isnan(found).sum()):
        raise TraceError(
            f"{missing} of {len(table)} readings have no inputs of a probe: give the file that was "
            "recorded with these traces"
        )
    at = table.column_names.index("confidence")
    table = table.set_column(at, table.schema.field(at), pa.array(found))
    return with_fingerprint(table, replace(fingerprint, probe=digest_probe(folder)))


def _confidences(inputs: Iterable[KeptInputs], folder: Path) -> dict[ReadingKey, float]:
    size, probe = read_probe(folder).hidden_size, Probe.load(folder)
    found: dict[ReadingKey, float] = {}
    for part in inputs:
        hidden_NH, statistics_NS = np.split(part.inputs_ND, [-len(STATISTICS)], axis=1)
        if hidden_NH.shape[1] != size:
            raise ModelRefused(
                f"the probe in {folder} reads states of size {size}, but the traces' states have "
                f"size {hidden_NH.shape[1]}: give a probe that was trained for their model"
            )
        confidence_N = probe.confidence(torch.tensor(hidden_NH), torch.tensor(statistics_NS))
        keys = zip(part.problem_ids, part.rollouts, part.tokens, strict=True)
        found.update(zip(keys, confidence_N.tolist(), strict=True))
    return found
