"""Bounds for Parquet files from strangers: a small file may unpack to any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from calibration.errors import TraceError

_ROWS_AT_A_TIME = 65_536


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a file may hold.

    Attributes:
        rows: in all row groups together.
        unpacked: bytes of the known columns, without compression.
    """

    rows: int
    unpacked: int

    def read(self, file: pq.ParquetFile, columns: Sequence[str], path: Path) -> pa.Table:
        """Some columns of a file.

        The file's metadata are checked before anything is unpacked. They may be wrong, so what is
        unpacked is counted as well. A single page is unpacked as a whole: only the memory limit of
        the process bounds it.

        Raises:
            TraceError: the file is out of bounds, or has negative sizes.
        """
        self._check(*_declared(file.metadata, columns), path)
        before, rows, batches = pa.total_allocated_bytes(), 0, []
        for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=list(columns)):
            batches.append(batch)
            rows += batch.num_rows
            self._check(rows, pa.total_allocated_bytes() - before, path)
        names = set(columns)
        schema = pa.schema([field for field in file.schema_arrow if field.name in names])
        return pa.Table.from_batches(batches, None if batches else schema)

    def _check(self, rows: int, unpacked: int, path: Path) -> None:
        for value, limit, unit in ((rows, self.rows, "rows"), (unpacked, self.unpacked, "bytes")):
            if value > limit:
                raise TraceError(
                    f"{path} has {value} {unit} unpacked, over the limit of {limit}: give fewer "
                    "problems or rollouts"
                )


def _declared(metadata: pq.FileMetaData, columns: Sequence[str]) -> tuple[int, int]:
    """Rows and unpacked bytes, as the metadata have them."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    unpacked = sum(
        chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in set(columns)
    )
    return max(metadata.num_rows, sum(group.num_rows for group in groups)), unpacked
