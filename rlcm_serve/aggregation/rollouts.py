"""Rows of rollouts: the problem, the answer, the confidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.errors import RequestRefused
from rlcm_serve.wrong_values import shown

# 64-bit offsets: the texts of a batch may exceed 2 GiB.
SCHEMA = pa.schema(
    [
        ("problem_id", pa.large_string()),
        ("answer", pa.large_string()),
        ("confidence", pa.float64()),
        ("reference", pa.large_string()),
        ("row", pa.int64()),
    ]
)
"""Rollouts (R). `answer` is null if there is none, `reference` if it is unknown. `row` is the
row number in the input."""

MOST_ROLLOUTS = 2**20
"""Most rollouts of one problem: sums of this many multiples of 2**-40 are exact in 64 bits."""


class Places:
    """Names the rows of an input in error messages.

    Args:
        pattern: for example "line {}".
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def refused(self, row: int, field: str | None, message: str) -> RequestRefused:
        """An error in a field of row number `row`, or in the whole row."""
        place = self._pattern.format(row)
        if place.endswith("]"):  # a JSON path
            name = place if field is None else f"{place}.{field}"
        else:
            name = field or "rollouts"
        return RequestRefused(name, f"{place}: {message}")


LINES = Places("line {}")
ROWS = Places("row {}")
ITEMS = Places("rollouts[{}]")


def rollouts_of(
    problem_ids: Sequence[str],
    answers: Sequence[str | None],
    confidences: Sequence[float | None] | None = None,
    references: Sequence[str | None] | None = None,
    *,
    rows: NDArray[np.int64] | None = None,
) -> pa.RecordBatch:
    """Rollouts from columns of equal length; `check_rollouts` checks them.

    Args:
        rows: row numbers; by default 1, 2, ...
    """
    size = len(problem_ids)
    columns = [
        problem_ids,
        answers,
        pa.nulls(size) if confidences is None else confidences,
        pa.nulls(size) if references is None else references,
        np.arange(1, size + 1) if rows is None else rows,
    ]
    arrays = [
        column.cast(field.type) if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def check_rollouts(rollouts: pa.RecordBatch, places: Places, *, weighs: bool) -> None:
    """Raises for the first invalid row.

    Args:
        weighs: whether every rollout needs a confidence.

    Raises:
        RequestRefused: an empty problem_id, a blank reference, a confidence outside [0, 1], or a
            missing confidence that is needed.
    """
    nameless = pc.equal(pc.binary_length(rollouts["problem_id"]), 0)
    _raise_first(rollouts, nameless, places, "problem_id", "give at least one character")
    _raise_first(rollouts, pc.is_null(rollouts["problem_id"]), places, "problem_id", "give a name")
    confidence = rollouts["confidence"]
    if weighs:
        remedy = "the vote uses it as a weight: give a number from 0 to 1, or set vote to majority"
        _raise_first(rollouts, pc.is_null(confidence), places, "confidence", remedy)
    blank = _is_blank(rollouts["reference"])
    remedy = "give the true answer, or null if it is unknown"
    _raise_first(rollouts, blank, places, "reference", remedy)
    outside = pc.invert(pc.and_(pc.greater_equal(confidence, 0.0), pc.less_equal(confidence, 1.0)))
    _raise_first(rollouts, outside, places, "confidence", "give a number from 0 to 1")


def _raise_first(
    rollouts: pa.RecordBatch, bad_R: pa.BooleanArray, places: Places, field: str, remedy: str
) -> None:
    if not pc.any(bad_R).as_py():
        return
    at = pc.index(bad_R, True).as_py()
    value, row = rollouts[field][at].as_py(), rollouts["row"][at].as_py()
    found = "missing" if value is None else shown(value)
    raise places.refused(row, field, f"{field} is {found}: {remedy}")


def too_many(problem_id: str, rollouts: int) -> RequestRefused:
    """The error for a problem with too many rollouts."""
    return RequestRefused(
        "problem_id",
        f"problem {shown(problem_id)} has {rollouts} rollouts or more: give at most "
        f"{MOST_ROLLOUTS}",
    )


def without_answer(answers: pa.LargeStringArray) -> pa.LargeStringArray:
    """The answers, with null in place of blank ones."""
    return pc.if_else(_is_blank(answers), pa.scalar(None, answers.type), answers)


def _is_blank(texts: pa.LargeStringArray) -> pa.BooleanArray:
    return pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0)


def column(rollouts: pa.RecordBatch, name: str) -> NDArray[np.float64] | NDArray[np.int64]:
    """A column of numbers without nulls."""
    values: NDArray[np.float64] | NDArray[np.int64] = rollouts[name].to_numpy(zero_copy_only=False)
    return values
