"""Graded rollouts as a table: recorded reasoning, with a column for every source of confidence.

The table is that of `calibration.trace_table`, so that `rlcm fit` and `rlcm replay` take it as it
is, and more: `confidence:SOURCE` and `tokens:SOURCE` say what each source read at a reading, and
how many tokens that took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from calibration import ExitReason
from calibration.fingerprint import Fingerprint
from calibration.trace_table import Reading as TraceReading
from calibration.trace_table import Rollout, to_table
from rlcm_serve.evaluation.rollouts import Reading, RolloutRecord
from rlcm_serve.evaluation.sources import ABOUT, Source

CONFIDENCE, TOKENS = "confidence:", "tokens:"
"""Prefixes of a source's columns."""
ANSWER_TOKENS = f"{TOKENS}answer"
"""What the answer of a stop costs where no reading has brought it."""

Verdicts = Mapping[tuple[str, str], bool]
"""Whether an answer equals a reference."""
Classes = Callable[[Sequence[str | None]], list[int]]


@dataclass(frozen=True, slots=True)
class Read:
    """What a source says at a reading: None where it says nothing; and the tokens of that."""

    confidence: float | None
    tokens: int = 0


def answers_given(records: Iterable[RolloutRecord]) -> Iterable[tuple[str, str]]:
    """Every answer that a stop at some reading would give, with its problem's id."""
    for record in records:
        for at in range(len(record.readings)):
            answer, _ = record.given(at)
            if answer is not None:
                yield record.problem_id, answer


def graded_table(
    records: Iterable[RolloutRecord],
    references: Mapping[str, str],
    groups: Mapping[str, str | None],
    verdicts: Verdicts,
    classes: Classes,
    source: Source,
    fingerprint: Fingerprint | None,
) -> pa.Table:
    """One row per reading, by problem and rollout.

    Args:
        references: by problem id.
        verdicts: of all `answers_given`.
        classes: numbers equal answers of one problem.
        source: whose confidence goes into the column of that name.
        fingerprint: of what was recorded; None if the source is not what an engine would exit by.
    """
    by_problem: dict[str, list[RolloutRecord]] = {}
    for record in sorted(records, key=lambda record: record.key):
        by_problem.setdefault(record.problem_id, []).append(record)
    rollouts: list[Rollout] = []
    read: dict[Source, list[Read]] = {one: [] for one in Source}
    answer_tokens: list[int] = []
    for problem_id, recorded in by_problem.items():
        numbered = _Numbered(recorded, classes)
        for record in recorded:
            for at in range(len(record.readings)):
                answer_tokens.append(record.given(at)[1])
                for one in Source:
                    read[one].append(_read(one, record, at, numbered))
            correct = [
                (answer := record.given(at)[0]) is not None
                and verdicts[answer, references[problem_id]]
                for at in range(len(record.readings))
            ]
            rollouts.append(_rollout(record, groups[problem_id], correct, numbered, source))
    table = to_table(rollouts, fingerprint)
    table = table.append_column(ANSWER_TOKENS, pa.array(answer_tokens, pa.int64()))
    for one, column in read.items():
        if any(each.confidence is not None for each in column):
            values = pa.array([each.confidence for each in column], pa.float64())
            tokens = pa.array([each.tokens for each in column], pa.int64())
            table = table.append_column(CONFIDENCE + one, values)
            table = table.append_column(TOKENS + one, tokens)
    return table


class _Numbered:
    """The classes of all answers to one problem."""

    def __init__(self, records: Sequence[RolloutRecord], classes: Classes) -> None:
        texts: dict[str, None] = {}
        for record in records:
            for reading in record.readings:
                texts |= dict.fromkeys(answer for answer in reading.answers if answer is not None)
            if record.own_answer is not None:
                texts[record.own_answer] = None
        self._class_of = dict(zip(texts, classes(list(texts)), strict=True))

    def __call__(self, answer: str | None) -> int:
        return -1 if answer is None else self._class_of[answer]


def _rollout(
    record: RolloutRecord,
    group: str | None,
    correct: Sequence[bool],
    numbered: _Numbered,
    source: Source,
) -> Rollout:
    readings = []
    for at, reading in enumerate(record.readings):
        answer, tokens = record.given(at)
        says = _read(source, record, at, numbered)
        is_final = at == len(record.readings) - 1
        readings.append(
            TraceReading(
                tokens=reading.tokens,
                confidence=says.confidence or 0.0,
                answer=answer,
                answer_class=numbered(answer),
                answer_tokens=tokens if is_final or not ABOUT[source].brings_answer else 0,
                correct=correct[at],
                confidence_tokens=says.tokens,
            )
        )
    return Rollout(
        problem_id=record.problem_id,
        rollout=record.rollout,
        end_reason=ExitReason.NATURAL if record.natural else ExitReason.BUDGET,
        checkpoints=tuple(readings[:-1]),
        final=readings[-1],
        group=group,
    )


def _read(source: Source, record: RolloutRecord, at: int, numbered: _Numbered) -> Read:
    reading = record.readings[at]
    if ABOUT[source].online:
        return Read(reading.signals.get(source))
    if source is Source.ENTROPY:
        return Read(None if reading.entropy is None else math.exp(-reading.entropy), tokens=1)
    is_final = at == len(record.readings) - 1
    if source is Source.VERBALISED and is_final and record.own_verbalised is not None:
        return Read(record.own_verbalised)
    return Read(_said(source, record, at, numbered), _generated(source, record, reading, is_final))


def _said(source: Source, record: RolloutRecord, at: int, numbered: _Numbered) -> float | None:
    reading = record.readings[at]
    if source is Source.ANSWER_PROBABILITY:
        return reading.answer_probability
    if source is Source.VERBALISED:
        return reading.verbalised
    given = numbered(record.given(at)[0])
    if given < 0:
        return None
    return sum(numbered(answer) == given for answer in reading.answers) / len(reading.answers)


def _generated(source: Source, record: RolloutRecord, reading: Reading, is_final: bool) -> int:
    """Tokens of a reading; of a last answer that had to be forced anyway, only what is on top."""
    first, *others = reading.answer_tokens
    tokens = 0 if is_final and record.own_answer is None else first
    if source is Source.AGREEMENT:
        tokens += sum(others)
    if source is Source.VERBALISED:
        tokens += reading.verbalised_tokens
    return tokens
