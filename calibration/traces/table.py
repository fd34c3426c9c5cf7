"""The table that recorded reasoning is kept in: one row per reading of the confidence."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calibration.errors import TraceError
from calibration.policy.exit_rule import ExitReason
from calibration.traces.fingerprint import Fingerprint

FINGERPRINT_KEY = b"rlcm_fingerprint"

SCHEMA = pa.schema(
    [
        ("problem_id", pa.string()),
        ("group", pa.string()),
        ("rollout", pa.int64()),
        ("checkpoint", pa.int64()),
        ("tokens", pa.int64()),
        ("is_final", pa.bool_()),
        ("end_reason", pa.string()),
        ("confidence", pa.float64()),
        ("answer", pa.string()),
        ("answer_class", pa.int64()),
        ("answer_tokens", pa.int64()),
        ("correct", pa.bool_()),
    ]
)

CONFIDENCE_TOKENS = pa.field("confidence_tokens", pa.int64())
"""A column that a table has only where some reading cost tokens; left out, none did."""

KNOWN = SCHEMA.append(CONFIDENCE_TOKENS)
NULLABLE = ("group", "answer")
REQUIRED = ("problem_id", "rollout", "tokens", "is_final", "confidence", "correct")
"""What every table must have; with a fingerprint, all of SCHEMA but NULLABLE."""

TEXT = pa.dictionary(pa.int32(), pa.large_string())
"""How texts are held until they are numbered: ids repeat in row after row."""

_BATCH = 2048
"""Rollouts turned into Arrow at a time, so that the Python lists in between stay small."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a rollout: the confidence, and the answer it would give if stopped here.

    Attributes:
        tokens: reasoning tokens so far.
        confidence: the raw reading of the probe, in [0, 1].
        answer: the answer forced here, or the model's own at a natural end; None if none could be
            read.
        answer_class: number of the group of equal answers within the problem; NO_ANSWER if none.
        answer_tokens: tokens that this answer cost.
        correct: whether the answer is right; no answer is not.
        confidence_tokens: tokens that were generated for the confidence alone, as some that are
            made of text need; the probe's costs none.
    """

    tokens: int
    confidence: float
    answer: str | None
    answer_class: int
    answer_tokens: int
    correct: bool
    confidence_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """One full recording: no early exit was taken, so that every policy can be replayed on it.

    Attributes:
        problem_id: the problem it reasons about.
        rollout: number within the problem, from 0.
        end_reason: natural or budget.
        checkpoints: the readings at N, 2N, ... tokens.
        final: the reading at the end; after a checkpoint at the very end it has the same tokens.
        group: template or source that problems share; None if the problem stands alone.
    """

    problem_id: str
    rollout: int
    end_reason: ExitReason
    checkpoints: tuple[Reading, ...]
    final: Reading
    group: str | None = None


def to_table(rollouts: Iterable[Rollout], fingerprint: Fingerprint | None) -> pa.Table:
    """One row per reading; `checkpoint` numbers a rollout's readings from 1, the final one too.

    There is no column for what readings cost if none did.

    Raises:
        TraceError: a value is not of its column's type; the message names the rollout.
    """
    remaining, batches = iter(rollouts), []
    while part := list(islice(remaining, _BATCH)):
        try:
            batches.append(_to_batch(part))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise _mistyped(part) from error
    table = pa.Table.from_batches(batches, KNOWN)
    if not pc.any(pc.not_equal(table.column(CONFIDENCE_TOKENS.name), 0)).as_py():
        table = table.drop_columns([CONFIDENCE_TOKENS.name])
    if fingerprint is None:
        return table
    return table.replace_schema_metadata({FINGERPRINT_KEY: json.dumps(fingerprint.to_json())})


def fingerprint_of(schema: pa.Schema, source: str) -> Fingerprint | None:
    """The fingerprint in a schema's metadata; None if there is none.

    Raises:
        TraceError: it is malformed.
    """
    packed = (schema.metadata or {}).get(FINGERPRINT_KEY)
    if packed is None:
        return None
    try:
        return Fingerprint.from_json(json.loads(packed))
    except (ValueError, TypeError) as error:
        raise TraceError(f"{source}: malformed fingerprint ({error}): collect it again") from error


def typed(table: pa.Table, source: str, complete: bool) -> pa.Table:
    """The known columns of a table in the types of KNOWN, texts as TEXT, without nulls.

    Args:
        table: with columns in any order and of any type that can be cast without loss.
        source: what to call it in a message.
        complete: all of SCHEMA but NULLABLE must be there, not just REQUIRED.

    Raises:
        TraceError: a column is missing, a value is null or cannot be cast, or there are no rows.
    """
    required = [name for name in SCHEMA.names if name not in NULLABLE] if complete else REQUIRED
    names = [name for name in KNOWN.names if name in table.column_names]
    if missing := [name for name in required if name not in names]:
        raise TraceError(
            f"{source}: missing columns {missing}: traces "
            f"{'with' if complete else 'without'} a fingerprint have at least {list(required)}"
        )
    if table.num_rows == 0:
        raise TraceError(f"{source}: no rows: nothing was recorded, so collect traces first")
    if "answer_class" in names and "answer" in names:
        names.remove("answer")  # the text only serves to find the class
    return pa.table([_cast_column(table, name, source) for name in names], names=names)


def _to_batch(rollouts: Sequence[Rollout]) -> pa.RecordBatch:
    rows = [
        (rollout, number, reading)
        for rollout in rollouts
        for number, reading in enumerate((*rollout.checkpoints, rollout.final), start=1)
    ]
    columns = {
        "problem_id": [rollout.problem_id for rollout, _, _ in rows],
        "group": [rollout.group for rollout, _, _ in rows],
        "rollout": [rollout.rollout for rollout, _, _ in rows],
        "checkpoint": [number for _, number, _ in rows],
        "tokens": [reading.tokens for _, _, reading in rows],
        "is_final": [number > len(rollout.checkpoints) for rollout, number, _ in rows],
        "end_reason": [str(rollout.end_reason) for rollout, _, _ in rows],
        "confidence": [reading.confidence for _, _, reading in rows],
        "answer": [reading.answer for _, _, reading in rows],
        "answer_class": [reading.answer_class for _, _, reading in rows],
        "answer_tokens": [reading.answer_tokens for _, _, reading in rows],
        "correct": [reading.correct for _, _, reading in rows],
        "confidence_tokens": [reading.confidence_tokens for _, _, reading in rows],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in KNOWN]
    return pa.RecordBatch.from_arrays(arrays, schema=KNOWN)


def _mistyped(rollouts: Sequence[Rollout]) -> TraceError:
    """Which of the rollouts does not fit the schema, and why."""
    for rollout in rollouts:
        try:
            _to_batch([rollout])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            return TraceError(
                f"problem {rollout.problem_id!r}, rollout {rollout.rollout!r}: {error}: give the "
                "types that Rollout and Reading name"
            )
    return TraceError("rollouts: values of several types in one column")


def _cast_column(table: pa.Table, name: str, source: str) -> pa.ChunkedArray:
    column, kind = table.column(name), KNOWN.field(name).type
    if name not in NULLABLE and column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        remedy = (
            "grade the answer; one that cannot be read is wrong (false), never left out"
            if name == "correct"
            else "record the rollout again"
        )
        raise TraceError(f"{_place(table, source, row)}: {name} is null: {remedy}")
    try:
        return _strictly(column, kind)
    except pa.ArrowNotImplementedError as error:
        raise TraceError(f"{source}: {name} is {column.type}: give {kind}") from error
    except pa.ArrowInvalid as error:
        # Bisection: the first row lies in [low, high).
        low, high = 0, len(column)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                _strictly(column[low:middle], kind)
                low = middle
            except pa.ArrowInvalid:
                high = middle
        raise TraceError(
            f"{_place(table, source, low)}: {name} is {column[low].as_py()!r}: give {kind}"
        ) from error


def _strictly(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A cast that loses nothing: Arrow alone would take a verdict of 0.5 for true."""
    if kind == pa.string():
        if pa.types.is_dictionary(column.type):
            return column.cast(TEXT)
        return column.cast(TEXT.value_type).dictionary_encode()
    cast = column.cast(kind)
    is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if kind == pa.bool_() and is_number:
        known = pc.is_in(column, pa.array([0, 1], column.type))
        if not pc.all(known, min_count=0).as_py():
            raise pa.ArrowInvalid("neither 0 nor 1")
    return cast


def _place(table: pa.Table, source: str, row: int) -> str:
    """Where a row of an unsorted table was recorded, in words."""
    known = [
        f"{word} {table.column(name)[row].as_py()!r}"
        for word, name in (
            ("problem", "problem_id"),
            ("rollout", "rollout"),
            ("checkpoint", "checkpoint"),
        )
        if name in table.column_names
    ]
    return f"{source}: row {row} ({', '.join(known)})"
