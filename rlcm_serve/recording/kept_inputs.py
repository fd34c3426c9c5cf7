"""What a probe can read at every reading of recorded traces, in a Parquet file beside them.

With it another probe can read the same traces, without the model. A row has the inputs at one
reading: the state (H), then the statistics of the tokens (S), as float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from calibration import TraceError
from calibration.traces.traces import INPUTS_SUFFIX
from rlcm_serve.engine.worker.statistics import DEFINITION
from rlcm_serve.recording.inputs import ProbeRollout, map_inputs

_DEFINITION_KEY = b"rlcm_probe_inputs"
_ROLLOUTS = 256
"""Rollouts in memory at a time."""


@dataclass(frozen=True, slots=True)
class KeptInputs:
    """Some of the readings, in the order in which they were recorded.

    Attributes:
        problem_ids, rollouts, tokens: of each reading (N); `tokens` counts those before it.
        inputs_ND: what a probe can read there (N, D), D = H + S.
    """

    problem_ids: Sequence[str]
    rollouts: Sequence[int]
    tokens: Sequence[int]
    inputs_ND: npt.NDArray[np.float32]


def kept_beside(traces: Path) -> Path:
    """The file of the inputs that belong to traces."""
    return traces.with_suffix(INPUTS_SUFFIX)


def write_kept_inputs(path: Path, recordings: Sequence[ProbeRollout], source: Path) -> None:
    """Writes the inputs of all readings; a kill leaves no file that is cut off.

    Args:
        path: the Parquet file.
        recordings: at least one.
        source: the file of their inputs, which an `InputsFile` wrote.
    """
    width = recordings[0].n_inputs
    rows_RD = map_inputs(source, width)
    schema = pa.schema(
        [
            ("problem_id", pa.string()),
            ("rollout", pa.int64()),
            ("tokens", pa.int64()),
            ("inputs", pa.list_(pa.float32(), width)),
        ],
        metadata={_DEFINITION_KEY: DEFINITION},
    )
    partial = path.with_name(f"{path.name}.partial")
    with pq.ParquetWriter(partial, schema, use_dictionary=["problem_id"]) as file:
        for first in range(0, len(recordings), _ROLLOUTS):
            file.write_batch(_batch(recordings[first : first + _ROLLOUTS], rows_RD, schema))
    partial.replace(path)


def _batch(
    recordings: Sequence[ProbeRollout], rows_RD: npt.NDArray[np.float32], schema: pa.Schema
) -> pa.RecordBatch:
    inputs_ND = np.concatenate([rows_RD[one.first_input : one.end] for one in recordings])
    readings = [(one, reading) for one in recordings for reading in one.readings]
    values = (
        pa.array([one.problem_id for one, _ in readings]),
        pa.array([one.rollout for one, _ in readings]),
        pa.array([reading.tokens for _, reading in readings]),
        pa.FixedSizeListArray.from_arrays(inputs_ND.ravel(), inputs_ND.shape[1]),
    )
    return pa.record_batch(
        [column.cast(field.type) for column, field in zip(values, schema, strict=True)],
        schema=schema,
    )


def read_kept_inputs(path: Path) -> Iterator[KeptInputs]:
    """The inputs in a file, part by part.

    Raises:
        TraceError: there is no such file, it is not of this format, or its statistics are
            computed in another way.
    """
    if not path.is_file():
        raise TraceError(
            f"no inputs of a probe in {path}: record the traces with `rlcm collect --keep-inputs`"
        )
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise TraceError(f"{path} is not Parquet ({error}): collect it again") from error
    definition = (file.schema_arrow.metadata or {}).get(_DEFINITION_KEY, b"").decode()
    if definition != DEFINITION:
        raise TraceError(
            f"{path} has statistics of tokens with {definition!r}, but this release computes "
            f"{DEFINITION!r}: collect it again"
        )
    for batch in file.iter_batches():
        inputs = batch["inputs"]
        yield KeptInputs(
            problem_ids=batch["problem_id"].to_pylist(),
            rollouts=batch["rollout"].to_pylist(),
            tokens=batch["tokens"].to_pylist(),
            inputs_ND=inputs.flatten().to_numpy().reshape(len(batch), inputs.type.list_size),
        )
