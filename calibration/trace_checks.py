"""What a sound table of recorded reasoning looks like, and what to say of one that is not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibration.errors import TraceError
from calibration.exit_rule import ExitReason
from calibration.fingerprint import Fingerprint
from calibration.trace_table import SCHEMA
from calibration.voting import NO_ANSWER

FULL_ENDS = (ExitReason.NATURAL, ExitReason.BUDGET)
NULLABLE = ("group", "answer")

Fault = tuple[NDArray[np.bool_], Callable[[int], str]]
"""The lines at fault, and what is wrong with one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of a sound table, lines (L) sorted by problem, rollout and checkpoint."""

    row_L: NDArray[np.intp]
    problem_L: NDArray[np.object_]
    group_L: NDArray[np.object_]
    rollout_L: NDArray[np.int64]
    checkpoint_L: NDArray[np.int64]
    tokens_L: NDArray[np.int64]
    is_final_L: NDArray[np.bool_]
    end_reason_L: NDArray[np.object_]
    confidence_L: NDArray[np.float64]
    answer_class_L: NDArray[np.int64]
    answer_tokens_L: NDArray[np.int64]
    correct_L: NDArray[np.bool_]


def check_table(table: pa.Table, fingerprint: Fingerprint, source: str) -> Columns:
    """The columns of a table in which every rollout can be replayed under every policy.

    Raises:
        TraceError: the first fault found, with its row (from 0) and what to do about it.
    """
    columns = _sorted_columns(_cast(table, source))
    for fault_L, describe in (*_reading_faults(columns), *_sequence_faults(columns, fingerprint)):
        if fault_L.any():
            at = int(fault_L.argmax())
            raise TraceError(
                f"{source}: row {columns.row_L[at]} (problem {columns.problem_L[at]!r}, rollout "
                f"{columns.rollout_L[at]}, checkpoint {columns.checkpoint_L[at]}): {describe(at)}"
            )
    return columns


def _cast(table: pa.Table, source: str) -> pa.Table:
    if "group" not in table.column_names:
        table = table.append_column("group", pa.nulls(table.num_rows, pa.string()))
    if missing := [name for name in SCHEMA.names if name not in table.column_names]:
        raise TraceError(f"{source}: missing columns {missing}: a trace has {SCHEMA.names}")
    if table.num_rows == 0:
        raise TraceError(f"{source}: no rows: nothing was recorded")
    try:
        table = table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TraceError(f"{source}: {error}: a trace has the columns\n{SCHEMA}") from error
    for name in SCHEMA.names:
        column = table.column(name)
        if name in NULLABLE or column.null_count == 0:
            continue
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        problem_id, rollout = table.column("problem_id")[row], table.column("rollout")[row]
        remedy = (
            "grade the answer; one that cannot be read is wrong (false), never left out"
            if name == "correct"
            else "record the rollout again"
        )
        raise TraceError(
            f"{source}: row {row} (problem {problem_id.as_py()!r}, rollout {rollout.as_py()}): "
            f"{name} is null: {remedy}"
        )
    return table


def _sorted_columns(table: pa.Table) -> Columns:
    arrays = {name: table.column(name).to_numpy() for name in SCHEMA.names}
    row_L = np.lexsort(
        (arrays["checkpoint"], arrays["rollout"], arrays["problem_id"].astype(np.str_))
    )
    return Columns(
        row_L=row_L,
        problem_L=arrays["problem_id"][row_L],
        group_L=arrays["group"][row_L],
        rollout_L=arrays["rollout"][row_L],
        checkpoint_L=arrays["checkpoint"][row_L],
        tokens_L=arrays["tokens"][row_L],
        is_final_L=arrays["is_final"][row_L],
        end_reason_L=arrays["end_reason"][row_L],
        confidence_L=arrays["confidence"][row_L],
        answer_class_L=arrays["answer_class"][row_L],
        answer_tokens_L=arrays["answer_tokens"][row_L],
        correct_L=arrays["correct"][row_L],
    )


def _reading_faults(columns: Columns) -> Iterator[Fault]:
    """What can be wrong with a line on its own."""
    confidence_L, class_L = columns.confidence_L, columns.answer_class_L
    # Written so that NaN is a fault too.
    yield (
        ~((confidence_L >= 0) & (confidence_L <= 1)),
        lambda at: f"confidence is {confidence_L[at]}, not a number from 0 to 1: check the probe",
    )
    yield (
        ~np.isin(columns.end_reason_L.astype(np.str_), [str(end) for end in FULL_ENDS]),
        lambda at: (
            f"end_reason is {columns.end_reason_L[at]!r}: only full rollouts (natural, budget) can "
            "be replayed; record without early exits"
        ),
    )
    yield (
        class_L < NO_ANSWER,
        lambda at: (
            f"answer_class is {class_L[at]}: give a class from 0, or {NO_ANSWER} for no answer"
        ),
    )
    yield (
        (class_L == NO_ANSWER) & columns.correct_L,
        lambda _: f"correct, but answer_class is {NO_ANSWER} (no answer): no answer is not correct",
    )
    yield _negative("rollout", columns.rollout_L)
    yield _negative("tokens", columns.tokens_L)
    yield _negative("answer_tokens", columns.answer_tokens_L)


def _sequence_faults(columns: Columns, fingerprint: Fingerprint) -> Iterator[Fault]:
    """What can be wrong between the lines of a rollout."""
    interval, budget = fingerprint.checkpoint_interval, fingerprint.max_tokens
    number_L, tokens_L, is_final_L = columns.checkpoint_L, columns.tokens_L, columns.is_final_L
    same_problem_L = _same_as_before(columns.problem_L)
    same_rollout_L = same_problem_L & _same_as_before(columns.rollout_L)
    last_L = ~np.append(same_rollout_L[1:], False)
    tokens_before_L = np.where(same_rollout_L, np.roll(tokens_L, 1), 0)
    number_before_L = np.where(same_rollout_L, np.roll(number_L, 1), 0)

    yield (
        same_rollout_L & (number_L == number_before_L),
        lambda at: f"the same reading is also in row {columns.row_L[at - 1]}: drop one of them",
    )
    yield (
        same_rollout_L & ~_same_as_before(columns.end_reason_L),
        lambda at: (
            f"end_reason is {columns.end_reason_L[at]!r}, "
            f"earlier {columns.end_reason_L[at - 1]!r}: a rollout ends in one way"
        ),
    )
    yield (
        same_problem_L & ~_same_as_before(columns.group_L),
        lambda at: (
            f"group is {columns.group_L[at]!r}, earlier {columns.group_L[at - 1]!r}: "
            "a problem is in one group"
        ),
    )
    yield (
        last_L & ~is_final_L,
        lambda _: "the rollout stops here without a final reading: record it again",
    )
    yield (
        is_final_L & ~last_L,
        lambda _: "is_final, but more readings follow: only the last is final",
    )
    yield (
        number_L != number_before_L + 1,
        lambda at: (
            f"checkpoint {number_before_L[at] + 1} is missing before it: record the rollout again"
        ),
    )
    yield (
        same_rollout_L
        & np.where(is_final_L, tokens_L < tokens_before_L, tokens_L <= tokens_before_L),
        lambda at: f"tokens are {tokens_L[at]} after {tokens_before_L[at]}: they must increase",
    )
    yield (
        ~is_final_L & (tokens_L != interval * number_L),
        lambda at: (
            f"tokens are {tokens_L[at]}, not {interval * number_L[at]}: checkpoints lie every "
            f"{interval} tokens (checkpoint_interval of the fingerprint), where a server meets them"
        ),
    )
    yield (
        np.where(is_final_L, tokens_L > budget, tokens_L >= budget),
        lambda at: (
            f"tokens are {tokens_L[at]} with a budget of {budget} (max_tokens of the fingerprint): "
            "checkpoints lie below it, the final reading at most on it"
        ),
    )
    expected_L = np.minimum(tokens_L // interval, (budget - 1) // interval)
    yield (
        is_final_L & (number_L - 1 != expected_L),
        lambda at: (
            f"{number_L[at] - 1} checkpoints before an end at {tokens_L[at]} tokens, expected "
            f"{expected_L[at]}, one every {interval}: record the rollout again"
        ),
    )


def _negative(name: str, count_L: NDArray[np.int64]) -> Fault:
    return count_L < 0, lambda at: f"{name} is {count_L[at]}: give 0 or more"


def _same_as_before(values_L: NDArray[Any]) -> NDArray[np.bool_]:
    return np.append(False, values_L[1:] == values_L[:-1])
