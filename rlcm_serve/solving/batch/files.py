"""Writes rows of answers, completely or not at all."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlcm_serve.solving.batch.questions import PARQUET

_ROW_GROUP = 8192
_TEXTS = ("id", "answer", "error", "reference")
COLUMNS = pa.schema(
    [
        ("row", pa.int64()),
        *((name, pa.string()) for name in _TEXTS),
        ("correct", pa.bool_()),
        ("response", pa.string()),
    ]
)
"""Of Parquet. `response` is the whole row as JSON, as a line of JSON Lines would be."""


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows of answers in their order, as Parquet (`.parquet`) or as JSON Lines.

    A kill leaves either the whole file or none of this name.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    if path.suffix == PARQUET:
        _write_parquet(unfinished, rows)
    else:
        with unfinished.open("w") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
    unfinished.replace(path)


def _write_parquet(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    left = iter(rows)
    with pq.ParquetWriter(path, COLUMNS) as file:
        while group := [_flat(row) for row in itertools.islice(left, _ROW_GROUP)]:
            file.write_table(pa.Table.from_pylist(group, COLUMNS))


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    columns = {name: row.get(name) for name in COLUMNS.names}
    return columns | {"response": json.dumps(row)}
