"""Checks of recorded rollouts, and the error message for each fault."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibration.errors import TraceError
from calibration.policy.exit_rule import ExitReason
from calibration.policy.voting import NO_ANSWER
from calibration.traces.columns import Columns, sorting_order
from calibration.traces.fingerprint import MOST_COUNTED, Fingerprint

_OWN_ENDS = tuple(end for end in ExitReason if end.is_own_end)

Fault = tuple[NDArray[np.bool_], Callable[[int], str]]
"""The lines with a fault, and a function that describes the fault of one line and the remedy."""

_AGAIN = "record the rollout again"


def check_tables(
    tables: Sequence[pa.Table],
    sources: Sequence[str],
    fingerprint: Fingerprint | None,
    *,
    keep_unlabelled: bool = False,
) -> Columns:
    """The columns of tables in which every rollout can be replayed under every policy.

    With a fingerprint, checkpoints must be where a server has them. Without one, they may be
    anywhere, also at 0 tokens, and only the columns that `Columns.of` cannot fill in are required.

    Args:
        tables: one per source.
        sources: the name of each table in a message.
        fingerprint: the fingerprint of all tables; None if they have none.
        keep_unlabelled: whether problems may have no label.

    Raises:
        TraceError: the first fault found: source, row (from 0), problem, rollout, checkpoint and
            the remedy.
    """
    complete = fingerprint is not None
    columns = Columns.of(tables, sources, complete, keep_unlabelled=keep_unlabelled)
    faults = chain(_reading_faults(columns), _sequence_faults(columns, complete))
    if fingerprint is not None:
        faults = chain(
            faults, _position_faults(columns, fingerprint), _gate_faults(columns, fingerprint)
        )
    for fault_L, describe in faults:
        if fault_L.any():
            line = int(fault_L.argmax())
            raise TraceError(f"{columns.place(line)}: {describe(line)}")
    return columns


def _reading_faults(columns: Columns) -> Iterator[Fault]:
    """Faults of a single line."""
    confidence_L, class_L = columns.confidence_L, columns.answer_class_L
    # Written this way, NaN is a fault too.
    yield (
        ~((confidence_L >= 0) & (confidence_L <= 1)),
        lambda line: (
            f"confidence is {confidence_L[line]}, not a number from 0 to 1: check the probe"
        ),
    )
    full_L = np.logical_or(*(columns.end_reason.are(end) for end in _OWN_ENDS))
    yield (
        ~full_L,
        lambda line: (
            f"end_reason is {columns.end_reason[line]!r}: only full rollouts (natural, budget) can "
            "be replayed; record without early exits"
        ),
    )
    yield (
        class_L < NO_ANSWER,
        lambda line: (
            f"answer_class is {class_L[line]}: give a class from 0, or {NO_ANSWER} for no answer"
        ),
    )
    yield (
        (class_L == NO_ANSWER) & columns.correct_L,
        lambda _: (
            f"correct is true, but answer_class is {NO_ANSWER} (no answer): give the answer, or "
            "set correct to false"
        ),
    )
    yield _no_count("rollout", columns.rollout_L)
    yield _no_count("tokens", columns.tokens_L)
    yield (
        np.full(len(columns.tokens_L), not columns.tokens_L.any()),
        lambda _: "tokens are 0 in every row: give the tokens of each reading, which exits save",
    )
    yield _no_count("answer_tokens", columns.answer_tokens_L)
    yield _no_count("confidence_tokens", columns.confidence_tokens_L)


def _sequence_faults(columns: Columns, complete: bool) -> Iterator[Fault]:
    """Faults between the lines of a problem or a rollout."""
    number_L, tokens_L, is_final_L = columns.checkpoint_L, columns.tokens_L, columns.is_final_L
    same_problem_L = _same_as_before(columns.problem.code_L)
    same_rollout_L = same_problem_L & _same_as_before(columns.rollout_L)
    last_L = ~np.append(same_rollout_L[1:], False)

    twin_L = _twins(columns)
    yield (
        twin_L >= 0,
        lambda line: (
            f"the same reading is also in {_other_row(columns, line, int(twin_L[line]))}: drop one "
            "of them"
        ),
    )
    yield (
        same_rollout_L & ~_same_as_before(columns.end_reason.code_L),
        lambda line: (
            f"end_reason is {columns.end_reason[line]!r}, earlier "
            f"{columns.end_reason[line - 1]!r}: a rollout has one end reason; {_AGAIN}"
        ),
    )
    yield (
        same_problem_L & ~_same_as_before(columns.group.code_L),
        lambda line: (
            f"group is {columns.group[line]!r}, earlier {columns.group[line - 1]!r}: "
            "a problem is in one group; give the same group in all its rows"
        ),
    )
    yield (
        same_problem_L & ~_same_as_before(columns.kind.code_L),
        lambda line: (
            f"kind is {columns.kind[line]!r}, earlier {columns.kind[line - 1]!r}: "
            "a problem is of one kind; give the same kind in all its rows"
        ),
    )
    yield (
        same_problem_L & ~_same_as_before(columns.graded_L),
        lambda line: (
            f"correct is {'given' if columns.graded_L[line] else 'null'} here, and not in earlier "
            "rows of the problem: a problem has a label or none; grade all of its answers"
        ),
    )
    yield (
        last_L & ~is_final_L,
        lambda _: f"the rollout stops here without a final reading: {_AGAIN}",
    )
    yield (
        is_final_L & ~last_L,
        lambda _: f"is_final is true, but more readings follow: only the last is final; {_AGAIN}",
    )
    first_L = np.ones_like(number_L) if complete else np.clip(number_L, 0, 1)
    expected_L = np.where(same_rollout_L, np.roll(number_L, 1) + 1, first_L)
    yield (
        number_L != expected_L,
        lambda line: (
            f"checkpoint {expected_L[line]} is missing before it: {_AGAIN}"
            if number_L[line] > expected_L[line]
            else f"the first checkpoint must have number {expected_L[line]}: count from there"
        ),
    )
    tokens_before_L = np.roll(tokens_L, 1)
    # If a rollout ends at a checkpoint, there are two readings at the same tokens; the second one
    # is the final reading.
    stuck_L = np.where(is_final_L, tokens_L < tokens_before_L, tokens_L <= tokens_before_L)
    order = "" if columns.numbered else " from row to row without a checkpoint column"
    yield (
        same_rollout_L & stuck_L,
        lambda line: (
            f"tokens are {tokens_L[line]} after {tokens_before_L[line]}: they must increase"
            f"{order}; {_AGAIN}"
        ),
    )


def _position_faults(columns: Columns, fingerprint: Fingerprint) -> Iterator[Fault]:
    """Checkpoints that are not where a server with this fingerprint has them."""
    interval, budget = fingerprint.checkpoint_interval, fingerprint.max_tokens
    number_L, tokens_L, is_final_L = columns.checkpoint_L, columns.tokens_L, columns.is_final_L
    yield (
        ~is_final_L & (tokens_L != interval * number_L),
        lambda line: (
            f"tokens are {tokens_L[line]}, not {interval * number_L[line]}: the fingerprint has "
            f"a checkpoint every {interval} tokens (checkpoint_interval); {_AGAIN}"
        ),
    )
    yield (
        np.where(is_final_L, tokens_L > budget, tokens_L >= budget),
        lambda line: (
            f"tokens are {tokens_L[line]} with a budget of {budget} (max_tokens of the "
            f"fingerprint): checkpoints are below it, the final reading at most at it; {_AGAIN}"
        ),
    )
    at_budget_L = columns.end_reason.are(ExitReason.BUDGET)
    yield (
        is_final_L & at_budget_L & (tokens_L < budget),
        lambda line: (
            f"end_reason is 'budget' at {tokens_L[line]} tokens, and the budget is {budget} "
            f"(max_tokens of the fingerprint): it was cut off before; {_AGAIN}"
        ),
    )
    expected_L = np.minimum(tokens_L // interval, (budget - 1) // interval)
    yield (
        is_final_L & (number_L - 1 != expected_L),
        lambda line: (
            f"{number_L[line] - 1} checkpoints before an end at {tokens_L[line]} tokens, expected "
            f"{expected_L[line]}, one every {interval}: {_AGAIN}"
        ),
    )


def _gate_faults(columns: Columns, fingerprint: Fingerprint) -> Iterator[Fault]:
    """Questions of which nothing says whether the service would have taken them for familiar."""
    if fingerprint.is_gated:
        yield (
            ~((columns.familiarity_L >= 0) & (columns.familiarity_L <= 1)),
            lambda line: (
                f"familiarity is {columns.familiarity_L[line]}, not a p-value from 0 to 1, but the "
                f"fingerprint has a familiarity reading: {_AGAIN}"
            ),
        )


def _twins(columns: Columns) -> NDArray[np.intp]:
    """For each line, an earlier line with the same reading; -1 if there is none.

    Readings are identified by their number. Without a number, tokens and `is_final` identify them.
    """
    told_by: list[NDArray[Any]] = [columns.problem.code_L, columns.rollout_L]
    if columns.numbered:
        told_by += [columns.checkpoint_L]
    else:
        told_by += [columns.tokens_L, columns.is_final_L]
    line_L = sorting_order(*told_by)
    same_L = np.append(False, np.ones(len(line_L) - 1, dtype=np.bool_))
    for values_L in told_by:
        same_L &= _same_as_before(values_L[line_L])
    twin_L = np.full(len(line_L), -1)
    twin_L[line_L[same_L]] = line_L[np.flatnonzero(same_L) - 1]
    return twin_L


def _other_row(columns: Columns, line: int, other: int) -> str:
    """The row of another line; its source is named only if it differs."""
    source, _ = columns.origin.locate(int(columns.row_L[line]))
    other_source, row = columns.origin.locate(int(columns.row_L[other]))
    return f"row {row}" if other_source == source else f"row {row} of {other_source}"


def _no_count(name: str, count_L: NDArray[np.int64]) -> Fault:
    return (
        (count_L < 0) | (count_L > MOST_COUNTED),
        lambda line: f"{name} is {count_L[line]}: give 0 or more, and at most {MOST_COUNTED}",
    )


def _same_as_before(values_L: NDArray[Any]) -> NDArray[np.bool_]:
    return np.append(False, values_L[1:] == values_L[:-1])
