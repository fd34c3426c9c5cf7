"""Many rollouts in, one answer per problem out.

Grouped rows stream through: the result of a problem follows its last row. Rows in any order are
collected, beyond `memory` bytes on disk. Their votes are counted after the last row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pyarrow as pa

from rlcm_serve.aggregation.graders import Graders
from rlcm_serve.aggregation.results import Summary, Totals
from rlcm_serve.aggregation.rollouts import LINES, SCHEMA, Places, check_rollouts
from rlcm_serve.aggregation.rules import VoteOptions
from rlcm_serve.aggregation.runs import Runs
from rlcm_serve.aggregation.spill import HASH, SortedRuns, with_hashes
from rlcm_serve.aggregation.votes import take_votes

MEMORY = 64 * 2**20
"""Bytes of rows in memory; counting their votes takes a few times as much."""


class Aggregation:
    """Counts the votes of one set of rollouts. Use it as a context manager, in one thread.

    Args:
        options: the rule, and whether the rows are grouped.
        places: names of rows in error messages.
        memory: bytes of rows to keep in memory before they go to disk.
        graders: compare answers that need math-verify. They are closed with the aggregation; to
            abandon them abandons it.
    """

    def __init__(
        self,
        options: VoteOptions,
        *,
        places: Places = LINES,
        memory: int = MEMORY,
        graders: Graders | None = None,
    ) -> None:
        self._options = options
        self._places = places
        self._memory = memory
        self._graders = graders or Graders()
        self._totals = Totals()
        self._runs = Runs(places)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._spilled: SortedRuns | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes temporary files, and ends the graders."""
        self._graders.close()
        if self._spilled is not None:
            self._spilled.close()

    @property
    def summary(self) -> Summary:
        """The summary of the results returned so far."""
        return self._totals.summary

    def add(self, rollouts: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Adds rows; if rows are grouped, returns the results of the problems that have ended.

        Raises:
            RequestRefused: a row is invalid, or rows are not grouped as announced.
            RuntimeError: answers could not be compared.
            OSError: there is no room for temporary files.
        """
        check_rollouts(rollouts, self._places, weighs=self._options.weighs)
        if self._options.grouped:
            yield from map(self._vote, self._runs.add(rollouts))
            return
        self._held.append(rollouts)
        self._held_bytes += rollouts.nbytes
        if self._held_bytes > self._memory:
            self._spill()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The remaining results, ordered by the first row of each problem; raises as `add`."""
        if self._options.grouped:
            yield from map(self._vote, self._runs.finish())
        elif self._spilled is not None:
            self._spill()
            yield from self._vote_from_disk(self._spilled)
        elif self._held:
            rows = pa.concat_batches(self._held)
            self._held = []
            if len(rows):
                yield self._vote(rows)

    def _vote(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        self._graders.check()
        results = take_votes(rows, self._options, self._graders, self._places)
        self._totals.add(results)
        return results

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = SortedRuns(HASH)
        if self._held:
            self._spilled.add(with_hashes(pa.concat_batches(self._held)))
            self._held, self._held_bytes = [], 0

    def _vote_from_disk(self, spilled: SortedRuns) -> Iterator[pa.RecordBatch]:
        """Votes on whole problems in the order of their hashes, then sorts the results by row."""
        with SortedRuns("row") as results:
            for rows in spilled.merged(self._memory // 4):
                results.add(self._vote(rows.select(SCHEMA.names)))
            yield from results.merged(self._memory // 4)
