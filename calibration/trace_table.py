"""The table that recorded reasoning is kept in: one row per reading of the confidence."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from calibration.errors import CalibrationError, TraceError
from calibration.exit_rule import ExitReason
from calibration.fingerprint import Fingerprint

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
    """

    tokens: int
    confidence: float
    answer: str | None
    answer_class: int
    answer_tokens: int
    correct: bool


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


def to_table(rollouts: Iterable[Rollout], fingerprint: Fingerprint) -> pa.Table:
    """One row per reading; `checkpoint` numbers a rollout's readings from 1, the final one too."""
    rows = [
        {
            "problem_id": rollout.problem_id,
            "group": rollout.group,
            "rollout": rollout.rollout,
            "checkpoint": number,
            "tokens": reading.tokens,
            "is_final": number > len(rollout.checkpoints),
            "end_reason": str(rollout.end_reason),
            "confidence": reading.confidence,
            "answer": reading.answer,
            "answer_class": reading.answer_class,
            "answer_tokens": reading.answer_tokens,
            "correct": reading.correct,
        }
        for rollout in rollouts
        for number, reading in enumerate((*rollout.checkpoints, rollout.final), start=1)
    ]
    metadata = {FINGERPRINT_KEY: json.dumps(fingerprint.to_json())}
    return pa.Table.from_pylist(rows, schema=SCHEMA).replace_schema_metadata(metadata)


def fingerprint_of(table: pa.Table, source: str) -> Fingerprint:
    """The fingerprint in the schema's metadata.

    Raises:
        TraceError: there is none, or it is malformed.
    """
    packed = (table.schema.metadata or {}).get(FINGERPRINT_KEY)
    if packed is None:
        raise TraceError(
            f"{source}: no fingerprint in the metadata, so nothing says what was recorded; "
            "record traces with `rlcm collect` or `write_traces`"
        )
    try:
        return Fingerprint.from_json(json.loads(packed))
    except (json.JSONDecodeError, UnicodeDecodeError, CalibrationError) as error:
        raise TraceError(f"{source}: malformed fingerprint ({error}): collect it again") from error
