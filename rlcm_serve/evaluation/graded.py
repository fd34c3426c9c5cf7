"""Graded rollouts as a table: recorded reasoning, with a column for every source of confidence.

The table is that of `calibration.traces.table`, so that `rlcm fit` and `rlcm replay` take it as it
is, and more: `confidence:SOURCE` and `tokens:SOURCE` say what each source read at a reading, and
how many tokens that took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from calibration import ExitReason
from calibration.policy.voting import NO_ANSWER
from calibration.traces.fingerprint import Fingerprint
from calibration.traces.table import Reading as TraceReading
from calibration.traces.table import Rollout, to_table
from rlcm_serve.evaluation.rollouts import EvaluationReading, EvaluationRollout
from rlcm_serve.evaluation.sources import ABOUT, Source

CONFIDENCE, TOKENS = "confidence:", "tokens:"
"""Prefixes of a source's columns."""
ANSWER_TOKENS = f"{TOKENS}answer"
"""What the answer of a stop costs where no reading has brought it."""

Verdicts = Mapping[tuple[str, str], bool]
"""Whether an answer equals a reference."""
ClassesOfAll = Callable[[Sequence[Sequence[str | None]]], Sequence[Sequence[int]]]
"""Numbers equal answers, in one list after another."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a source says at a reading: None where it says nothing; and the tokens of that."""

    confidence: float | None
    tokens: int = 0


def answers_given(records: Iterable[EvaluationRollout]) -> Iterable[tuple[str, str]]:
    """Every answer that a stop at some reading would give, with its problem's id."""
    for record in records:
        for at in range(len(record.readings)):
            answer, _ = record.answer_at(at)
            if answer is not None:
                yield record.problem_id, answer


def graded_table(
    records: Iterable[EvaluationRollout],
    references: Mapping[str, str],
    groups: Mapping[str, str | None],
    verdicts: Verdicts,
    classes_of_all: ClassesOfAll,
    source: Source,
    fingerprint: Fingerprint | None,
) -> pa.Table:
    """One row per reading, by problem and rollout.

    Args:
        references: by problem id.
        verdicts: of all `answers_given`.
        classes_of_all: of a grader.
        source: whose confidence goes into the column of that name.
        fingerprint: of what was recorded; None if the source is not what an engine would exit by.
    """
    ordered = sorted(records, key=lambda record: record.key)
    equal = _Equal.find(ordered, references, verdicts, classes_of_all)
    rollouts: list[Rollout] = []
    read: dict[Source, list[Read]] = {one: [] for one in Source}
    answer_tokens: list[int] = []
    for record in ordered:
        for at in range(len(record.readings)):
            answer_tokens.append(record.answer_at(at)[1])
            for one in Source:
                read[one].append(_read(one, record, at, equal))
        rollouts.append(_rollout(record, groups[record.problem_id], equal, source))
    table = to_table(rollouts, fingerprint)
    table = table.append_column(ANSWER_TOKENS, pa.array(answer_tokens, pa.int64()))
    for one, column in read.items():
        if one is source or any(each.confidence is not None for each in column):
            values = pa.array([each.confidence for each in column], pa.float64())
            tokens = pa.array([each.tokens for each in column], pa.int64())
            table = table.append_column(CONFIDENCE + one, values)
            table = table.append_column(TOKENS + one, tokens)
    return table


@dataclass(frozen=True, slots=True)
class _Equal:
    """Which answers are right, and which are the same.

    Attributes:
        right: by problem and answer given.
        class_of: likewise; right answers are one class, for they all equal the reference.
        same: by the answer given at a reading and all that were forced there, which of them equal
            it.
    """

    right: Mapping[tuple[str, str], bool]
    class_of: Mapping[tuple[str, str], int]
    same: Mapping[tuple[str | None, ...], tuple[bool, ...]]

    @classmethod
    def find(
        cls,
        records: Sequence[EvaluationRollout],
        references: Mapping[str, str],
        verdicts: Verdicts,
        classes_of_all: ClassesOfAll,
    ) -> Self:
        """Compares what has to be compared, of all problems at once."""
        given = sorted(set(answers_given(records)))
        right = {(id_, answer): verdicts[answer, references[id_]] for id_, answer in given}
        wrong: dict[str, list[str]] = {}
        for id_, answer in given:
            if not right[id_, answer]:
                wrong.setdefault(id_, []).append(answer)
        readings = {
            (record.answer_at(at)[0], *record.readings[at].answers): None
            for record in records
            for at in range(len(record.readings))
        }
        lists = [*wrong.values(), *readings]
        classes = [list(found) for found in classes_of_all(lists)]
        class_of = dict.fromkeys((key for key, is_right in right.items() if is_right), 0)
        for (id_, answers), found in zip(wrong.items(), classes, strict=False):
            class_of |= {
                (id_, answer): 1 + number for answer, number in zip(answers, found, strict=True)
            }
        same = {
            answers: tuple(number == found[0] >= 0 for number in found[1:])
            for answers, found in zip(readings, classes[len(wrong) :], strict=True)
        }
        return cls(right, class_of, same)

    def correct(self, problem_id: str, answer: str | None) -> bool:
        """Whether it is right; no answer is not."""
        return answer is not None and self.right[problem_id, answer]

    def number(self, problem_id: str, answer: str | None) -> int:
        """Its class within the problem."""
        return NO_ANSWER if answer is None else self.class_of[problem_id, answer]

    def to_given(self, record: EvaluationRollout, at: int) -> tuple[bool, ...]:
        """Which of the answers forced at a reading equal the one that a stop there gives."""
        return self.same[record.answer_at(at)[0], *record.readings[at].answers]


def _rollout(
    record: EvaluationRollout, group: str | None, equal: _Equal, source: Source
) -> Rollout:
    readings = []
    for at, reading in enumerate(record.readings):
        answer, tokens = record.answer_at(at)
        says = _read(source, record, at, equal)
        is_final = at == len(record.readings) - 1
        readings.append(
            TraceReading(
                tokens=reading.tokens,
                confidence=says.confidence or 0.0,
                answer=answer,
                answer_class=equal.number(record.problem_id, answer),
                answer_tokens=tokens if is_final or not ABOUT[source].brings_answer else 0,
                correct=equal.correct(record.problem_id, answer),
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


def _read(source: Source, record: EvaluationRollout, at: int, equal: _Equal) -> Read:
    reading = record.readings[at]
    if ABOUT[source].online:
        return Read(reading.signals.get(source))
    if source is Source.ENTROPY:
        return Read(None if reading.entropy is None else math.exp(-reading.entropy), tokens=1)
    is_final = at == len(record.readings) - 1
    if source is Source.VERBALIZED and is_final and record.own_verbalized is not None:
        return Read(record.own_verbalized)
    tokens = _generated(source, record, reading, is_final)
    return Read(_said(source, record, at, equal, is_final), tokens)


def _said(
    source: Source, record: EvaluationRollout, at: int, equal: _Equal, is_final: bool
) -> float | None:
    """What is said of the answer given; None where the answer that it is of is another one."""
    reading, same = record.readings[at], equal.to_given(record, at)
    if source is Source.AGREEMENT:
        # Where the answer given is the first of those forced, the others agree with it, or do not.
        others = same if is_final and record.own_answer is not None else same[1:]
        return sum(others) / len(others) if others and record.answer_at(at)[0] is not None else None
    if not same[0]:
        return None
    if source is Source.ANSWER_PROBABILITY:
        return reading.answer_probability
    return reading.verbalized


def _generated(
    source: Source, record: EvaluationRollout, reading: EvaluationReading, is_final: bool
) -> int:
    """Tokens of a reading; of a last answer that had to be forced anyway, only what is on top."""
    first, *others = reading.answer_tokens
    tokens = 0 if is_final and record.own_answer is None else first
    if source is Source.AGREEMENT:
        tokens += sum(others)
    if source is Source.VERBALIZED:
        tokens += reading.verbalized_tokens
    return tokens
