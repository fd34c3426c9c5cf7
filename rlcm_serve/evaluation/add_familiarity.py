"""Adds the familiarity of the problems to traces that were recorded without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import FAMILIARITY, with_fingerprint
from rlcm_serve.errors import RequestRefused
from rlcm_serve.evaluation.regrading import required_fingerprint


def with_familiarity(
    table: pa.Table, p_values: Mapping[str, float], engine: Fingerprint
) -> pa.Table:
    """The traces with the p-value of each problem, and the engine's reading in the fingerprint.

    Args:
        table: of traces.
        p_values: by problem.
        engine: the fingerprint of the engine that read them.

    Raises:
        TraceError: the traces have no fingerprint.
        RequestRefused: they were recorded on another engine, so that its gate says nothing of them;
            or the engine has no familiarity reading.
    """
    fingerprint = required_fingerprint(table)
    if not engine.is_gated:
        raise RequestRefused(
            "model",
            "the model has no familiarity reading: fit one with `rlcm train familiarity`",
        )
    now = replace(
        fingerprint,
        familiarity=engine.familiarity,
        familiarity_cutoff=engine.familiarity_cutoff,
    )
    # The texts of the answers are as they were, whoever graded them.
    if differences := now.differences(replace(engine, grader=now.grader)):
        raise RequestRefused(
            "traces",
            "the traces were recorded on another engine (traces here, engine there): "
            f"{'; '.join(differences)}; give its model and settings",
        )
    if FAMILIARITY.name in table.column_names:
        table = table.drop_columns([FAMILIARITY.name])
    column = pa.array([p_values[id_] for id_ in table["problem_id"].to_pylist()], FAMILIARITY.type)
    return with_fingerprint(table.append_column(FAMILIARITY, column), now)
