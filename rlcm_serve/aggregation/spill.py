"""Keeps rows and results that do not fit into memory in unnamed temporary files.

Such a file disappears with its process, even after a kill. `TMPDIR` sets its folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_BITS = 6
PARTITIONS = 2**_BITS
_DEEPEST = 64 // _BITS - 1
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class BatchFile:
    """Batches in an unnamed temporary file, readable in any order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="rlcm-", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

    def write(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Appends a batch; returns its start and size."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        start = self._file.tell()
        written = 0
        while written < len(data):
            written += self._file.write(memoryview(data)[written:])
        return start, len(data)

    def read(self, place: tuple[int, int]) -> pa.RecordBatch:
        """The batch at this start and size."""
        start, size = place
        data = os.pread(self._file.fileno(), size, start)
        with pa.ipc.open_stream(data) as reader:
            return reader.read_next_batch()


class Partitions:
    """Rows split into partitions; all rows of a problem are in one partition, in their order.

    Args:
        level: how often the rows were split before; every level uses other bits of a hash.
    """

    def __init__(self, file: BatchFile, level: int = 0) -> None:
        self._file = file
        self._level = level
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        self._bytes = [0] * PARTITIONS

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows to their partitions."""
        part_R = self._partition(rows["problem_id"])
        order = np.argsort(part_R, kind="stable")
        spread = rows.take(pa.array(order))
        ends = np.cumsum(np.bincount(part_R, minlength=PARTITIONS))
        for part, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if start < end:
                piece = spread.slice(start, end - start)
                self._places[part].append(self._file.write(piece))
                self._bytes[part] += piece.nbytes

    def leaves(self, limit: int) -> Iterator[pa.RecordBatch]:
        """All rows, with all rows of a problem in the same batch.

        Args:
            limit: most bytes of a batch; a batch of a single problem may exceed it.
        """
        for places, size in zip(self._places, self._bytes, strict=True):
            if size > limit and self._level < _DEEPEST:
                yield from self._split(places, limit)
            elif places:
                yield _concat([self._file.read(place) for place in places])

    def _split(self, places: Sequence[tuple[int, int]], limit: int) -> Iterator[pa.RecordBatch]:
        with BatchFile() as file:
            finer = Partitions(file, self._level + 1)
            for place in places:
                finer.add(self._file.read(place))
            if sum(size > 0 for size in finer._bytes) == 1:  # probably a single problem
                yield _concat([self._file.read(place) for place in places])
            else:
                yield from finer.leaves(limit)

    def _partition(self, problem_ids: pa.LargeStringArray) -> NDArray[np.int64]:
        encoded = problem_ids.dictionary_encode()
        hashes = np.fromiter(map(hash, encoded.dictionary.to_pylist()), dtype=np.int64)
        part_P = (hashes >> (_BITS * self._level)) & (PARTITIONS - 1)
        part_R: NDArray[np.int64] = part_P[encoded.indices.to_numpy()]
        return part_R


class ResultRuns:
    """Merges runs of results that are ordered by row."""

    _BLOCK = 128

    def __init__(self, file: BatchFile) -> None:
        self._file = file
        self._runs: list[list[tuple[int, int]]] = []

    def add(self, results: pa.RecordBatch) -> None:
        """Adds a run."""
        blocks = range(0, len(results), self._BLOCK)
        self._runs.append([self._file.write(results.slice(at, self._BLOCK)) for at in blocks])

    def merged(self) -> Iterator[pa.RecordBatch]:
        """All results by row."""
        left = [iter(run) for run in self._runs]
        heads = [self._next(run) for run in left]
        while any(head is not None for head in heads):
            present = [head for head in heads if head is not None]
            # Up to this row, the results of every run have been read.
            upto = min(head["row"][-1].as_py() for head in present)
            ready = []
            for at, head in enumerate(heads):
                if head is None:
                    continue
                count = int(np.searchsorted(head["row"].to_numpy(), upto, side="right"))
                ready.append(head.slice(0, count))
                heads[at] = head.slice(count) if count < len(head) else self._next(left[at])
            together = _concat(ready)
            yield together.take(pa.array(np.argsort(together["row"].to_numpy())))

    def _next(self, run: Iterator[tuple[int, int]]) -> pa.RecordBatch | None:
        place = next(run, None)
        return None if place is None else self._file.read(place)


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
