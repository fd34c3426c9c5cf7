"""From rows to answers: each distinct answer of a problem with its count and its weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlcm_serve.aggregation.rollouts import (
    MOST_ROLLOUTS,
    Places,
    column,
    too_many,
    without_answer,
)
from rlcm_serve.aggregation.rules import Rule, VoteOptions, kept
from rlcm_serve.aggregation.texts import Read, Texts
from rlcm_serve.wrong_values import shown

UNIT = 2**40
"""A weight of 1. As in `calibration.policy.voting`, sums do not depend on the order."""
UNKNOWN = -1
"""Reference of a problem without one."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerCounts:
    """The answers (A) of some problems (P): one entry per distinct text of each problem.

    Attributes:
        problem_P: ids of the problems, in the order of their first rows.
        row_P: number of each problem's first row.
        reference_P: number of the text of the true answer, or UNKNOWN.
        texts: all answers and references.
        problem_A: number of the problem, ascending.
        text_A: number of the text; `len(texts.text_T)` means no answer.
        rollouts_A: number of rollouts with this answer.
        votes_A: number of these that take part in the vote.
        weight_A: their total weight, in units of 2**-40.
    """

    problem_P: pa.LargeStringArray
    row_P: Integers
    reference_P: Integers
    texts: Texts
    problem_A: Integers
    text_A: Integers
    rollouts_A: Integers
    votes_A: Integers
    weight_A: Integers

    @property
    def answered_A(self) -> NDArray[np.bool_]:
        """Which entries hold an answer."""
        return self.text_A < len(self.texts.text_T)

    def per_problem(self, value_A: Integers) -> Integers:
        """Sums over the entries of each problem (P); every problem has at least one entry."""
        starts = np.flatnonzero(np.diff(self.problem_A, prepend=-1))
        return np.add.reduceat(value_A, starts)


def count_answers(
    rollouts: pa.RecordBatch, options: VoteOptions, places: Places, read: Read
) -> AnswerCounts:
    """Counts the answers of all rows.

    Args:
        rollouts: rows that contain every row of their problems.
        read: reads the answers.

    Raises:
        RequestRefused: a problem has two references, or too many rollouts.
        RuntimeError: answers could not be read.
    """
    problems = rollouts["problem_id"].dictionary_encode()
    problem_R = problems.indices.to_numpy().astype(np.int64)
    _check_size(problems, problem_R)
    texts, text_R, reference_R = _read_texts(rollouts, read)
    first_P = np.empty(len(problems.dictionary), dtype=np.int64)
    first_P[problem_R[::-1]] = np.arange(len(problem_R))[::-1]
    reference_P = _references(rollouts, problem_R, reference_R, len(first_P), places)
    votes_R, weight_R = _weigh(rollouts, problem_R, text_R < len(texts.text_T), options)
    # One digit more than there are texts, for no answer.
    pair_R = problem_R * (len(texts.text_T) + 1) + text_R
    order = np.argsort(pair_R)
    sorted_R = pair_R[order]
    starts = np.flatnonzero(np.diff(sorted_R, prepend=-1))
    problem_A, text_A = np.divmod(sorted_R[starts], len(texts.text_T) + 1)
    return AnswerCounts(
        problem_P=problems.dictionary,
        row_P=column(rollouts, "row")[first_P].astype(np.int64),
        reference_P=reference_P,
        texts=texts,
        problem_A=problem_A,
        text_A=text_A,
        rollouts_A=np.diff(starts, append=len(sorted_R)),
        votes_A=np.add.reduceat(votes_R[order], starts),
        weight_A=np.add.reduceat(weight_R[order], starts),
    )


def _check_size(problems: pa.DictionaryArray, problem_R: Integers) -> None:
    rollouts_P = np.bincount(problem_R)
    largest = int(rollouts_P.argmax())
    if rollouts_P[largest] > MOST_ROLLOUTS:
        raise too_many(problems.dictionary[largest].as_py(), int(rollouts_P[largest]))


def _read_texts(rollouts: pa.RecordBatch, read: Read) -> tuple[Texts, Integers, Integers]:
    """The distinct texts, and the text numbers of each row's answer and reference."""
    answer_R, reference_R = without_answer(rollouts["answer"]), rollouts["reference"]
    encoded = pa.concat_arrays([answer_R, reference_R]).dictionary_encode()
    texts = Texts.read(encoded.dictionary, read)
    number = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy().astype(np.int64)
    return texts, number[: len(answer_R)], number[len(answer_R) :]


def _references(
    rollouts: pa.RecordBatch,
    problem_R: Integers,
    reference_R: Integers,
    problems: int,
    places: Places,
) -> Integers:
    """The text number of each problem's reference (P), from any row that has one."""
    reference_P = np.full(problems, UNKNOWN)
    known = rollouts["reference"].is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(known)
    reference_P[problem_R[rows[::-1]]] = reference_R[rows[::-1]]
    others = rows[reference_R[rows] != reference_P[problem_R[rows]]]
    if others.size:
        at = int(others[0])
        problem, reference = (rollouts[name][at].as_py() for name in ("problem_id", "reference"))
        raise places.refused(
            rollouts["row"][at].as_py(),
            "reference",
            f"reference is {shown(reference)}, but another row of problem {shown(problem)} has a "
            "different one: give one reference per problem",
        )
    return reference_P


def _weigh(
    rollouts: pa.RecordBatch,
    problem_R: Integers,
    answered_R: NDArray[np.bool_],
    options: VoteOptions,
) -> tuple[Integers, Integers]:
    """Whether each row takes part in the vote (1 or 0), and its weight in units of 2**-40."""
    if not options.weighs:
        return np.ones(len(problem_R), dtype=np.int64), np.full(len(problem_R), UNIT)
    confidence_R = column(rollouts, "confidence")
    weight_R = np.rint(confidence_R * UNIT).astype(np.int64)
    if options.rule is Rule.CONFIDENCE:
        return np.ones(len(problem_R), dtype=np.int64), weight_R
    votes_R = np.zeros(len(problem_R), dtype=np.int64)
    rows = np.flatnonzero(answered_R)
    rows = rows[np.lexsort((confidence_R[rows], problem_R[rows]))]
    starts = np.flatnonzero(np.diff(problem_R[rows], prepend=-1))
    sizes = np.diff(starts, append=len(rows))
    least = starts + sizes - kept(sizes, options.share)
    votes_R[rows] = confidence_R[rows] >= np.repeat(confidence_R[rows[least]], sizes)
    return votes_R, weight_R * votes_R
