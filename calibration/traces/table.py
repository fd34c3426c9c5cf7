"""The table format of recorded rollouts: one row per reading of the confidence."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
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
"""Optional column; a table has it only if some reading cost tokens."""

FAMILIARITY = pa.field("familiarity", pa.float64())
"""Optional column; a table has it only if the familiarity of the questions was read."""

KIND = pa.field("kind", pa.string())
"""Optional column; a table has it only if some problem has a kind."""

KNOWN = SCHEMA.append(CONFIDENCE_TOKENS).append(FAMILIARITY).append(KIND)
NULLABLE = ("group", "answer", KIND.name)
VERDICT = "correct"
"""Null in all rows of a problem without a label."""
REQUIRED = ("problem_id", "rollout", "tokens", "is_final", "confidence", "correct")
"""The columns of every table; with a fingerprint, all of SCHEMA except NULLABLE are required."""

TEXT = pa.dictionary(pa.int32(), pa.large_string())
"""How texts are held until they are numbered: ids repeat in many rows."""

_BATCH = 2048
"""Rollouts converted to Arrow at a time, so that the intermediate Python lists stay small."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a rollout: the confidence, and the answer if the rollout stopped here.

    Attributes:
        tokens: reasoning tokens so far.
        confidence: the raw reading of the probe, in [0, 1].
        answer: the answer forced here, or the model's own answer at a natural end; None if no
            answer could be read.
        answer_class: number of the group of equal answers within the problem; NO_ANSWER if none.
        answer_tokens: tokens that this answer cost.
        correct: whether the answer is right; false without an answer; None if the problem has no
            label.
        confidence_tokens: tokens generated only for the confidence, as for a verbalized confidence;
            0 for the probe.
    """

    tokens: int
    confidence: float
    answer: str | None
    answer_class: int
    answer_tokens: int
    correct: bool | None
    confidence_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout recorded without early exits, so that every policy can be replayed on it.

    Attributes:
        problem_id: its problem.
        rollout: number within the problem, from 0.
        end_reason: natural or budget.
        checkpoints: the readings at N, 2N, ... tokens.
        final: the reading at the end; if the end is a checkpoint, both have the same tokens.
        group: the template or source that problems share; None if the problem is a unit of its own.
        familiarity: p-value of the question's familiarity; None if it was not read.
        kind: the kind of question, such as its topic; None if none was declared.
    """

    problem_id: str
    rollout: int
    end_reason: ExitReason
    checkpoints: tuple[Reading, ...]
    final: Reading
    group: str | None = None
    familiarity: float | None = None
    kind: str | None = None


def to_table(rollouts: Iterable[Rollout], fingerprint: Fingerprint | None) -> pa.Table:
    """One row per reading; `checkpoint` counts a rollout's readings from 1, also the final one.

    `confidence_tokens` is left out if no reading cost tokens, `familiarity` if it was never read,
    `kind` if no problem has one.

    Raises:
        TraceError: a value does not have its column's type; the message names the rollout.
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
    for name in (FAMILIARITY.name, KIND.name):
        if table.column(name).null_count == table.num_rows:
            table = table.drop_columns([name])
    if fingerprint is None:
        return table
    return with_fingerprint(table, fingerprint)


def with_fingerprint(table: pa.Table, fingerprint: Fingerprint) -> pa.Table:
    """The table with this fingerprint in its metadata, in place of the one it had."""
    packed = json.dumps(fingerprint.to_json()).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), FINGERPRINT_KEY: packed})


def fingerprint_of(schema: pa.Schema, source: str) -> Fingerprint | None:
    """The fingerprint in a schema's metadata; None if there is none.

    Raises:
        TraceError: the fingerprint is malformed.
    """
    packed = (schema.metadata or {}).get(FINGERPRINT_KEY)
    if packed is None:
        return None
    try:
        return Fingerprint.from_json(json.loads(packed))
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceError(f"{source}: malformed fingerprint ({error}): collect it again") from error


def typed(
    table: pa.Table, source: str, complete: bool, *, keep_unlabelled: bool = False
) -> pa.Table:
    """The known columns of a table with the types of KNOWN, texts as TEXT, without nulls.

    Args:
        table: columns in any order and of any type that can be cast without loss.
        source: the name of the table in a message.
        complete: whether all of SCHEMA except NULLABLE is required, not only REQUIRED.
        keep_unlabelled: whether verdicts may be null.

    Raises:
        TraceError: a column is missing, a value is null or cannot be cast, or there are no rows.
    """
    required = [name for name in SCHEMA.names if name not in NULLABLE] if complete else REQUIRED
    names = [name for name in KNOWN.names if name in table.column_names]
    if missing := [name for name in required if name not in names]:
        raise TraceError(
            f"{source}: missing columns {missing}: traces "
            f"{'with' if complete else 'without'} a fingerprint need at least {list(required)}"
        )
    if table.num_rows == 0:
        raise TraceError(f"{source}: no rows: nothing was recorded; collect traces first")
    if "answer_class" in names and "answer" in names:
        names.remove("answer")  # the text is only needed to find the class
    nullable = (*NULLABLE, VERDICT) if keep_unlabelled else NULLABLE
    return pa.table([_cast_column(table, name, source, nullable) for name in names], names=names)


def _to_batch(rollouts: Sequence[Rollout]) -> pa.RecordBatch:
    rows = [
        (rollout, number, reading)
        for rollout in rollouts
        for number, reading in enumerate((*rollout.checkpoints, rollout.final), start=1)
    ]
    columns = {
        "problem_id": [rollout.problem_id for rollout, _, _ in rows],
        "group": [rollout.group for rollout, _, _ in rows],
        "familiarity": [rollout.familiarity for rollout, _, _ in rows],
        "kind": [rollout.kind for rollout, _, _ in rows],
        "rollout": [rollout.rollout for rollout, _, _ in rows],
        "checkpoint": [number for _, number, _ in rows],
        "is_final": [number > len(rollout.checkpoints) for rollout, number, _ in rows],
        "end_reason": [str(rollout.end_reason) for rollout, _, _ in rows],
        **{
            field.name: [getattr(reading, field.name) for _, _, reading in rows]
            for field in fields(Reading)
        },
    }
    arrays = [pa.array(columns[field.name], field.type) for field in KNOWN]
    return pa.RecordBatch.from_arrays(arrays, schema=KNOWN)


def _mistyped(rollouts: Sequence[Rollout]) -> TraceError:
    """The error for the first rollout that does not fit the schema."""
    for rollout in rollouts:
        try:
            _to_batch([rollout])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            return TraceError(
                f"problem {rollout.problem_id!r}, rollout {rollout.rollout!r}: {error}: give the "
                "types that Rollout and Reading name"
            )
    return TraceError("rollouts: values of several types in one column")


def _cast_column(
    table: pa.Table, name: str, source: str, nullable: Sequence[str]
) -> pa.ChunkedArray:
    column, kind = table.column(name), KNOWN.field(name).type
    if name not in nullable and column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        remedy = (
            "grade the answer; an answer that cannot be read is wrong (false)"
            if name == VERDICT
            else "record the rollout again"
        )
        raise TraceError(f"{_place(table, source, row)}: {name} is null: {remedy}")
    try:
        return _strictly(column, kind)
    except pa.ArrowNotImplementedError as error:
        raise TraceError(f"{source}: {name} is {column.type}: give {kind}") from error
    except pa.ArrowInvalid as error:
        # Bisection: the first bad row is in [low, high).
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
    """A cast without loss: Arrow alone would cast a verdict of 0.5 to true."""
    if kind == pa.string():
        if pa.types.is_dictionary(column.type):
            return column.cast(TEXT)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise pa.ArrowInvalid("NaN is no text")  # pandas writes it where there is none
        return column.cast(TEXT.value_type).dictionary_encode()
    cast = column.cast(kind)
    is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if kind == pa.bool_() and is_number:
        known = pc.is_in(column.drop_null(), pa.array([0, 1], column.type))
        if not pc.all(known, min_count=0).as_py():
            raise pa.ArrowInvalid("neither 0 nor 1")
    return cast


def _place(table: pa.Table, source: str, row: int) -> str:
    """The position of a row of an unsorted table, for a message."""
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
