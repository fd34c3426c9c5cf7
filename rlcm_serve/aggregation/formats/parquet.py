"""Reads rollouts from Parquet files, and writes results to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlcm_serve.aggregation.formats.explaining import REQUIRED, unknown_remedy
from rlcm_serve.aggregation.results import OUTPUT
from rlcm_serve.aggregation.rollouts import SCHEMA
from rlcm_serve.errors import RequestRefused
from rlcm_serve.wrong_values import cut, shown

_ROWS = 65_536
_COLUMNS = [name for name in SCHEMA.names if name != "row"]


def read_parquet(
    path: Path, *, ignore_extra: bool, on_progress: Callable[[int, int | None], None]
) -> Iterator[pa.RecordBatch]:
    """The rollouts of a file.

    Args:
        ignore_extra: whether to ignore further columns; otherwise they are an error.
        on_progress: called with the rows read so far and their total.

    Raises:
        RequestRefused: the file is not Parquet, or its columns are not those of rollouts.
    """
    try:
        with pq.ParquetFile(path) as file:
            names = _check_columns(file.schema_arrow, ignore_extra)
            done, total = 0, file.metadata.num_rows
            for batch in file.iter_batches(_ROWS, columns=names):
                yield _as_rollouts(batch, done)
                done += len(batch)
                on_progress(done, total)
    except pa.ArrowInvalid as error:
        raise RequestRefused("file", f"cannot be read as Parquet: {error}") from error


def _check_columns(schema: pa.Schema, ignore_extra: bool) -> list[str]:
    for name in REQUIRED:
        if name not in schema.names:
            raise RequestRefused(name, f"there is no column {name!r}: add it")
    extra = [name for name in schema.names if name not in _COLUMNS]
    if extra and not ignore_extra:
        raise RequestRefused(
            cut(extra[0]), f"there is a column {shown(extra[0])}: {unknown_remedy()}"
        )
    present = [name for name in _COLUMNS if name in schema.names]
    for name in present:
        if schema.names.count(name) > 1:
            raise RequestRefused(name, f"there are two columns {name!r}: keep one")
        kind = schema.field(name).type
        if not _fits(name, kind):
            wanted = "numbers" if name == "confidence" else "strings"
            raise RequestRefused(
                name, f"column {name!r} holds {cut(str(kind))}: store it as {wanted}"
            )
    return present


def _fits(name: str, kind: pa.DataType) -> bool:
    if name == "confidence":
        return bool(
            pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)
        )
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    may_be_null = name != "problem_id" and pa.types.is_null(kind)
    return may_be_null or any(one(kind) for one in is_text)


def _as_rollouts(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    arrays = []
    for name in _COLUMNS:
        kind = SCHEMA.field(name).type
        if name in batch.schema.names:
            array = batch[name]
            if pa.types.is_dictionary(array.type):
                array = array.dictionary_decode()
            arrays.append(array.cast(kind))
        else:
            arrays.append(pa.nulls(len(batch), kind))
    rows = pa.array(np.arange(before + 1, before + 1 + len(batch)))
    return pa.record_batch([*arrays, rows], schema=SCHEMA)


class ParquetResults:
    """Writes results as Parquet."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = pq.ParquetWriter(file, OUTPUT)

    def write(self, results: pa.RecordBatch) -> None:
        """Appends results."""
        self._writer.write_batch(results.select(OUTPUT.names))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
