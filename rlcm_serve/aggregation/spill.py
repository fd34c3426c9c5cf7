"""Keeps rows that do not fit into memory in an unnamed temporary file, and reads them back sorted.

Such a file disappears with its process, even after a kill. `TMPDIR` sets its folder.
"""

from __future__ import annotations

import heapq
import math
import os
import tempfile
from collections.abc import Iterator
from typing import Self

import numpy as np
import pyarrow as pa

HASH = "hash"
"""Column of `with_hashes`."""
_BLOCKS, _LEAST_ROWS = 256, 128
"""Blocks of a run, one of which is read at a time, and the fewest rows of a block."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class SortedRuns:
    """Runs of rows on disk, each sorted by a column of numbers; they are merged by reading them.

    Args:
        key: name of the column.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._file = tempfile.TemporaryFile(prefix="rlcm-", buffering=0)  # noqa: SIM115
        self._runs: list[list[tuple[int, int]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Sorts these rows and writes them as one run."""
        rows = _sorted(rows, self._key)
        size = max(_LEAST_ROWS, math.ceil(len(rows) / _BLOCKS))
        starts = range(0, len(rows), size)
        self._runs.append([self._write(rows.slice(start, size)) for start in starts])

    def merged(self, limit: int) -> Iterator[pa.RecordBatch]:
        """All rows in batches of rising keys, a batch by row; the same keys are in the same batch.

        Args:
            limit: bytes of a batch, about; the rows of a single key may exceed it.
        """
        runs = [iter(run) for run in self._runs]
        # The last key read of each run. Of smaller keys, every row has been read.
        reached = [(-math.inf, number) for number in range(len(runs))]
        waiting: list[pa.RecordBatch] = []
        size = left = 0
        while reached:
            _, number = heapq.heappop(reached)
            place = next(runs[number], None)
            if place is not None:
                waiting.append(self._read(place))
                size += waiting[-1].nbytes
                heapq.heappush(reached, (waiting[-1][self._key][-1].as_py(), number))
            if waiting and (size > left + limit or not reached):
                below = reached[0][0] if reached else math.inf
                ready, rest = self._divided(pa.concat_batches(waiting), below)
                waiting = [rest]
                size = left = rest.nbytes
                if len(ready):
                    yield ready

    def _divided(self, rows: pa.RecordBatch, below: float) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows with smaller keys, by row, and the others."""
        is_below = rows[self._key].to_numpy() < below
        return _sorted(rows.filter(pa.array(is_below)), "row"), rows.filter(pa.array(~is_below))

    def _write(self, rows: pa.RecordBatch) -> tuple[int, int]:
        """Appends a block; returns its start and size."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
            writer.write_batch(rows)
        data = sink.getvalue()
        start = self._file.tell()
        written = 0
        while written < len(data):
            written += self._file.write(memoryview(data)[written:])
        return start, len(data)

    def _read(self, place: tuple[int, int]) -> pa.RecordBatch:
        start, size = place
        with pa.ipc.open_stream(os.pread(self._file.fileno(), size, start)) as reader:
            return reader.read_next_batch()


def _sorted(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    return rows.take(pa.array(np.argsort(rows[column].to_numpy(), kind="stable")))


def with_hashes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with a column HASH, which is equal for all rows of a problem."""
    encoded = rows["problem_id"].dictionary_encode()
    hash_P = np.fromiter(map(hash, encoded.dictionary.to_pylist()), dtype=np.int64)
    return rows.append_column(HASH, pa.array(hash_P[encoded.indices.to_numpy()]))
