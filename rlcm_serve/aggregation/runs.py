"""Grouped rows: the rows of a problem are consecutive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.aggregation.rollouts import MOST_ROLLOUTS, Places, too_many
from rlcm_serve.errors import RequestRefused
from rlcm_serve.wrong_values import shown


class Runs:
    """Returns the rows of a problem when the next problem begins.

    Keeps the rows of the current problem, and a hash of every finished problem.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._open: list[pa.RecordBatch] = []
        self._size = 0
        self._ended: set[int] = set()

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the problems that have ended.

        Raises:
            RequestRefused: a problem appears again later, or has too many rollouts.
        """
        if len(rows) == 0:
            return
        problem_R = rows["problem_id"]
        changes = _changes(problem_R)
        last = int(changes[-1]) if changes.size else 0
        is_same = bool(self._open) and self._open[0]["problem_id"][0] == problem_R[0]
        if self._open and not (is_same and changes.size == 0):
            yield from self._end([*self._open, rows.slice(0, last)])
        elif last:
            yield from self._end([rows.slice(0, last)])
        if not (is_same and changes.size == 0):
            self._open, self._size = [], 0
        self._open.append(rows.slice(last))
        self._size += len(rows) - last
        if self._size > MOST_ROLLOUTS:
            raise too_many(problem_R[len(rows) - 1].as_py(), self._size)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rows of the last problem."""
        if self._open:
            yield from self._end(self._open)
            self._open = []

    def _end(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.concat_batches(batches)
        starts = [0, *_changes(rows["problem_id"]).tolist()]
        begun = rows["problem_id"].take(pa.array(starts)).to_pylist()
        hashes = list(map(hash, begun))
        if len({*hashes}) < len(hashes) or not self._ended.isdisjoint(hashes):
            raise self._not_grouped(rows, starts, begun)
        self._ended.update(hashes)
        yield rows

    def _not_grouped(
        self, rows: pa.RecordBatch, starts: list[int], begun: list[str]
    ) -> RequestRefused:
        seen = set(self._ended)
        at = 0
        while hash(begun[at]) not in seen:
            seen.add(hash(begun[at]))
            at += 1
        return self._places.refused(
            rows["row"][starts[at]].as_py(),
            "problem_id",
            f"problem {shown(begun[at])} appears again after other problems, but grouped is set: "
            "leave grouped out, so that rows may come in any order",
        )


def _changes(problem_R: pa.LargeStringArray) -> NDArray[np.int64]:
    """Positions where the problem differs from the row before."""
    changed = pc.not_equal(problem_R[1:], problem_R[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(changed) + 1
