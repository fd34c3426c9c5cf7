"""Graded rollouts as a table, with columns for every source of confidence.

`rlcm fit` and `rlcm replay` read the table, which has all columns of `calibration.traces.table`.
For each source, `confidence:SOURCE` holds its readings and `tokens:SOURCE` their costs in tokens.
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
"""Tokens of the answer after a stop, if no reading has generated it already."""
SUFFIX_TOKENS = f"{TOKENS}suffix"
"""Tokens inserted to force that answer; null in recordings from before they were kept."""

Verdicts = Mapping[tuple[str, str], bool]
"""Whether an answer equals a reference."""
ClassesOfAll = Callable[[Sequence[Sequence[str | None]]], Sequence[Sequence[int]]]
"""The classes of the answers in each list: equal answers get the same number."""


@dataclass(frozen=True, slots=True)
class Read:
    """A source's confidence at a reading, None if it has none, and its cost in tokens."""

    confidence: float | None
    tokens: int = 0


def answers_after_stops(records: Iterable[EvaluationRollout]) -> Iterable[tuple[str, str]]:
    """The answer after a stop at each reading, with the problem's id."""
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
        groups: by problem id.
        verdicts: on all `answers_after_stops`.
        classes_of_all: of a grader.
        source: its confidence becomes the column `confidence`.
        fingerprint: of the recording; None if no engine can exit by this source.
    """
    ordered = sorted(records, key=lambda record: record.key)
    equal = _Equal.find(ordered, references, verdicts, classes_of_all)
    rollouts = [_rollout(record, groups[record.problem_id], equal, source) for record in ordered]
    table = to_table(rollouts, fingerprint)
    readings = [(record, at) for record in ordered for at in range(len(record.readings))]
    answer_tokens = [record.answer_at(at)[1] for record, at in readings]
    table = table.append_column(ANSWER_TOKENS, pa.array(answer_tokens, pa.int64()))
    suffix_tokens = [record.suffix_at(at) for record, at in readings]
    table = table.append_column(SUFFIX_TOKENS, pa.array(suffix_tokens, pa.int64()))
    for one in Source:
        read = [_read(one, record, at, equal) for record, at in readings]
        if one is source or any(each.confidence is not None for each in read):
            values = pa.array([each.confidence for each in read], pa.float64())
            tokens = pa.array([each.tokens for each in read], pa.int64())
            table = table.append_column(CONFIDENCE + one, values)
            table = table.append_column(TOKENS + one, tokens)
    return table


@dataclass(frozen=True, slots=True)
class _Equal:
    """Which answers are right, and which are equal.

    Attributes:
        right: by problem and answer.
        class_of: by problem and answer. Right answers may be in several classes: `5 cm` and `5 m`
            equal the reference `5`, but not each other.
        same: by the answer after a stop and the answers forced there: which of the latter equal
            the former.
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
        """Compares the answers of all problems in one call."""
        answers = sorted(set(answers_after_stops(records)))
        right = {(id_, answer): verdicts[answer, references[id_]] for id_, answer in answers}
        given: dict[str, list[str]] = {}
        for id_, answer in sorted(answers, key=lambda key: not right[key]):
            given.setdefault(id_, []).append(answer)
        readings = {
            (record.answer_at(at)[0], *record.readings[at].answers): None
            for record in records
            for at in range(len(record.readings))
        }
        lists = [*given.values(), *readings]
        classes = [list(found) for found in classes_of_all(lists)]
        class_of = {
            (id_, answer): number
            for (id_, group), found in zip(given.items(), classes, strict=False)
            for answer, number in zip(group, found, strict=True)
        }
        same = {
            group: tuple(number == found[0] >= 0 for number in found[1:])
            for group, found in zip(readings, classes[len(given) :], strict=True)
        }
        return cls(right, class_of, same)

    def correct(self, problem_id: str, answer: str | None) -> bool:
        """Whether an answer is right; a missing answer is wrong."""
        return answer is not None and self.right[problem_id, answer]

    def number(self, problem_id: str, answer: str | None) -> int:
        """The class of an answer within its problem."""
        return NO_ANSWER if answer is None else self.class_of[problem_id, answer]

    def to_answer_at(self, record: EvaluationRollout, at: int) -> tuple[bool, ...]:
        """Which answers forced at a reading equal the answer after a stop there."""
        return self.same[record.answer_at(at)[0], *record.readings[at].answers]


def _rollout(
    record: EvaluationRollout, group: str | None, equal: _Equal, source: Source
) -> Rollout:
    readings = []
    for at, reading in enumerate(record.readings):
        answer, tokens = record.answer_at(at)
        read = _read(source, record, at, equal)
        is_final = at == len(record.readings) - 1
        readings.append(
            TraceReading(
                tokens=reading.tokens,
                confidence=read.confidence or 0.0,
                answer=answer,
                answer_class=equal.number(record.problem_id, answer),
                answer_tokens=tokens if is_final or not ABOUT[source].brings_answer else 0,
                correct=equal.correct(record.problem_id, answer),
                confidence_tokens=read.tokens,
            )
        )
    return Rollout(
        problem_id=record.problem_id,
        rollout=record.rollout,
        end_reason=ExitReason.NATURAL if record.natural else ExitReason.BUDGET,
        checkpoints=tuple(readings[:-1]),
        final=readings[-1],
        group=group,
        familiarity=record.familiarity,
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
    return Read(_confidence(source, record, at, equal, is_final), tokens)


def _confidence(
    source: Source, record: EvaluationRollout, at: int, equal: _Equal, is_final: bool
) -> float | None:
    """A source's confidence in the answer after a stop; None if it rates another answer."""
    reading, same = record.readings[at], equal.to_answer_at(record, at)
    if source is Source.AGREEMENT:
        # The first forced answer is not counted if it is the answer after the stop itself.
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
    """Tokens that a source costs at a reading, without the final answer if it is forced anyway."""
    first, *others = reading.answer_tokens
    tokens = 0 if is_final and record.own_answer is None else first
    if source is Source.AGREEMENT:
        tokens += sum(others)
    if source is Source.VERBALIZED:
        tokens += reading.verbalized_tokens
    return tokens
