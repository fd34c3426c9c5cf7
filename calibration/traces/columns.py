"""From tables of recorded readings to plain columns: complete, numbered and sorted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from calibration.errors import TraceError
from calibration.policy.exit_rule import ExitReason
from calibration.policy.voting import NO_ANSWER
from calibration.traces.table import (
    CONFIDENCE_TOKENS,
    FAMILIARITY,
    KIND,
    TEXT,
    VERDICT,
    typed,
)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of text: each line's index into the sorted names; -1 where the text is null."""

    names: pa.Array
    code_L: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """Encodes a column of text; null becomes -1."""
        encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        # One more entry than there are names: null (-1) selects the last one.
        used = np.zeros(len(encoded.dictionary) + 1, dtype=np.bool_)
        used[codes] = True
        names = encoded.dictionary.filter(pa.array(used[:-1]))
        order = pc.array_sort_indices(names).to_numpy()
        rank = np.full(len(used), -1)
        rank[np.flatnonzero(used[:-1])[order]] = np.arange(len(order))
        return cls(names.take(pa.array(order)), rank[codes])

    def __getitem__(self, line: int) -> str | None:
        code = int(self.code_L[line])
        return None if code < 0 else str(self.names[code].as_py())

    def are(self, name: str) -> NDArray[np.bool_]:
        """Which lines have the text `name`."""
        known = self.names.to_pylist()
        if name not in known:
            return np.zeros(len(self.code_L), dtype=np.bool_)
        are_L: NDArray[np.bool_] = self.code_L == known.index(name)
        return are_L

    def select(self, lines: NDArray[np.intp]) -> Self:
        """The labels of some lines, in their order."""
        return type(self)(self.names, self.code_L[lines])


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where rows come from: the sources, and the row in the stack at which each begins."""

    names: tuple[str, ...]
    start_S: NDArray[np.intp]

    def locate(self, row: int) -> tuple[str, int]:
        """The source of a row of the stack, and its row number (from 0) there."""
        source = int(np.searchsorted(self.start_S, row, side="right")) - 1
        return self.names[source], row - int(self.start_S[source])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Readings, lines (L) sorted by problem, rollout and checkpoint.

    Attributes:
        origin: finds the file of a row.
        row_L: row in the stack of all files.
        numbered: whether `checkpoint_L` was recorded; otherwise it counts the rows of a rollout
            from 1.
        correct_L: false where there is no verdict.
        graded_L: whether there is one.
    """

    origin: Origin
    row_L: NDArray[np.intp]
    numbered: bool
    problem: Labels
    group: Labels
    kind: Labels
    rollout_L: NDArray[np.int64]
    checkpoint_L: NDArray[np.int64]
    tokens_L: NDArray[np.int64]
    is_final_L: NDArray[np.bool_]
    end_reason: Labels
    confidence_L: NDArray[np.float64]
    answer_class_L: NDArray[np.int64]
    answer_tokens_L: NDArray[np.int64]
    correct_L: NDArray[np.bool_]
    graded_L: NDArray[np.bool_]
    confidence_tokens_L: NDArray[np.int64]
    familiarity_L: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        tables: Sequence[pa.Table],
        sources: Sequence[str],
        complete: bool,
        *,
        keep_unlabelled: bool = False,
    ) -> Self:
        """Stacks the tables of several sources, fills in missing columns, and sorts.

        Defaults of missing columns: `checkpoint` counts the rows of a rollout, `end_reason` is
        natural, `answer_tokens` and `confidence_tokens` are 0, `familiarity` is NaN. A missing
        `answer_class` groups equal texts of `answer` within a problem. Without `answer`, all right
        answers are one class and all wrong answers another, so that in a vote all wrong answers
        agree.

        Args:
            tables: one per source.
            sources: the name of each table in a message.
            complete: whether every column but `group` and `answer` is required.
            keep_unlabelled: whether verdicts may be null. Then classes cannot follow from them.

        Raises:
            TraceError: a column is missing, a value is null or has the wrong type, or there are no
                rows.
        """
        cast = [
            typed(table, source, complete, keep_unlabelled=keep_unlabelled)
            for table, source in zip(tables, sources, strict=True)
        ]
        _same_columns(cast, sources)
        sizes = [table.num_rows for table in cast]
        origin = Origin(tuple(sources), np.cumsum([0, *sizes[:-1]]))
        return cls._sorted(pa.concat_tables(cast, promote_options="default"), origin)

    @classmethod
    def _sorted(cls, table: pa.Table, origin: Origin) -> Self:
        n_rows, names = table.num_rows, table.column_names

        def values(name: str, default: float = 0) -> NDArray[Any]:
            if name not in names:
                return np.full(n_rows, default)
            column = table.column(name)
            # Null only if one of several files lacks a column that another file has.
            column = column.fill_null(default) if column.null_count else column
            return np.asarray(column.to_numpy())

        def labels(name: str, default: str | None = None) -> Labels:
            if name in names:
                return Labels.of(table.column(name))
            known = pa.array([] if default is None else [default], TEXT.value_type)
            return Labels(known, np.full(n_rows, len(known) - 1))

        problem, rollout_L, number_L = labels("problem_id"), values("rollout"), values("checkpoint")
        row_L = sorting_order(problem.code_L, rollout_L, number_L)
        problem, rollout_L = problem.select(row_L), rollout_L[row_L]
        numbered = "checkpoint" in names
        correct_L = values(VERDICT, default=False)[row_L]
        graded_L = table.column(VERDICT).is_valid().to_numpy()[row_L]
        if "answer_class" in names:
            answer_class_L = values("answer_class")[row_L]
        elif "answer" in names:
            answer_class_L = _classes(problem, labels("answer").select(row_L))
        elif not graded_L.all():
            raise TraceError(
                f"{origin.names[0]}: problems without a label, and no column `answer` or "
                "`answer_class`: without a verdict only these say which answers are equal"
            )
        else:
            answer_class_L = np.where(correct_L, 0, 1)
        return cls(
            origin=origin,
            row_L=row_L,
            numbered=numbered,
            problem=problem,
            group=labels("group").select(row_L),
            kind=labels("kind").select(row_L),
            rollout_L=rollout_L,
            checkpoint_L=number_L[row_L] if numbered else _count(problem.code_L, rollout_L),
            tokens_L=values("tokens")[row_L],
            is_final_L=values("is_final")[row_L],
            end_reason=labels("end_reason", ExitReason.NATURAL).select(row_L),
            confidence_L=values("confidence")[row_L],
            answer_class_L=answer_class_L,
            answer_tokens_L=values("answer_tokens")[row_L],
            correct_L=correct_L,
            graded_L=graded_L,
            confidence_tokens_L=values("confidence_tokens")[row_L],
            familiarity_L=values("familiarity", np.nan)[row_L],
        )

    def place(self, line: int) -> str:
        """Where a line was recorded, for a message."""
        source, row = self.origin.locate(int(self.row_L[line]))
        return (
            f"{source}: row {row} (problem {self.problem[line]!r}, rollout {self.rollout_L[line]}, "
            f"checkpoint {self.checkpoint_L[line]})"
        )


def sorting_order(*keys: NDArray[Any]) -> NDArray[np.intp]:
    """The stable order of lines that sorts by the first key, then the second, and so on."""
    tied_L = np.ones(len(keys[0]) - 1, dtype=np.bool_)
    for key_L in keys:
        if (tied_L & (key_L[1:] < key_L[:-1])).any():
            order_L: NDArray[np.intp] = np.lexsort(keys[::-1])
            return order_L
        tied_L &= key_L[1:] == key_L[:-1]
    # Most files are already in order; checking this takes a fraction of the time of sorting.
    return np.arange(len(keys[0]))


def _classes(problem: Labels, answer: Labels) -> NDArray[np.int64]:
    """Equal texts within a problem as classes 0, 1, ... in the order of their text."""
    classes_L = np.full(len(answer.code_L), NO_ANSWER)
    read_L = answer.code_L >= 0
    n_texts = max(len(answer.names), 1)
    pair_U, inverse = np.unique(
        problem.code_L[read_L] * n_texts + answer.code_L[read_L], return_inverse=True
    )
    first_P = np.searchsorted(pair_U, np.arange(len(problem.names)) * n_texts)
    classes_L[read_L] = inverse - first_P[problem.code_L[read_L]]
    return classes_L


def _count(problem_L: NDArray[np.int64], rollout_L: NDArray[np.int64]) -> NDArray[np.int64]:
    """The running number, from 1, of the lines of each rollout."""
    first_L = np.append(True, (np.diff(problem_L) != 0) | (np.diff(rollout_L) != 0))
    line_L = np.arange(len(first_L))
    number_L: NDArray[np.int64] = line_L - np.maximum.accumulate(np.where(first_L, line_L, 0)) + 1
    return number_L


_ONLY_IN_SOME = {"group", CONFIDENCE_TOKENS.name, FAMILIARITY.name, KIND.name}
"""Columns that may be missing in some of several files."""


def _same_columns(tables: Sequence[pa.Table], sources: Sequence[str]) -> None:
    first = set(tables[0].column_names)
    for table, source in zip(tables, sources, strict=True):
        if odd := sorted((first ^ set(table.column_names)) - _ONLY_IN_SOME):
            raise TraceError(
                f"columns {odd} are in {source} or in {sources[0]}, but not in both: give all "
                "files of a directory the same columns"
            )
