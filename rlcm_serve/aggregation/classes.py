"""From answers to classes of equal answers, and which of them are right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.aggregation.answer_counts import UNKNOWN, AnswerCounts, Integers
from rlcm_serve.aggregation.graders import Comparison, Graders

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The classes (C) of answers that take part in the vote, by problem.

    Attributes:
        problem_C: number of the problem, ascending.
        answer_C: entry in `AnswerCounts` whose text names the class: the most frequent one, then
            the shortest, then the alphabetically first.
        first_C: rank of the class's alphabetically first text, which orders tied classes.
        weight_C: total weight, in units of 2**-40.
        correct_A: whether each answer equals the reference.
        compared_P: whether all answers of a problem were compared in time.
    """

    problem_C: Integers
    answer_C: Integers
    first_C: Integers
    weight_C: Integers
    correct_A: Flags
    compared_P: Flags


def find_classes(counts: AnswerCounts, rank_T: Integers, graders: Graders) -> Classes:
    """Groups equal answers; the graders compare those that keys do not decide."""
    key_A, correct_A, compared_P = _compare(counts, graders)
    voted = np.flatnonzero(counts.answered_A & (counts.votes_A > 0))
    text = counts.text_A[voted]
    length_T = pc.utf8_length(counts.texts.text_T).to_numpy().astype(np.int64)
    order = np.lexsort(
        (
            rank_T[text],
            length_T[text],
            -counts.votes_A[voted],
            key_A[voted],
            counts.problem_A[voted],
        )
    )
    voted = voted[order]
    problem, key = counts.problem_A[voted], key_A[voted]
    is_first = (np.diff(problem, prepend=-1) != 0) | (np.diff(key, prepend=-1) != 0)
    starts = np.flatnonzero(is_first)
    if starts.size == 0:
        return Classes(starts, starts, starts, starts, correct_A, compared_P)
    return Classes(
        problem_C=problem[starts],
        answer_C=voted[starts],
        first_C=np.minimum.reduceat(rank_T[counts.text_A[voted]], starts),
        weight_C=np.add.reduceat(counts.weight_A[voted], starts),
        correct_A=correct_A,
        compared_P=compared_P,
    )


def _compare(counts: AnswerCounts, graders: Graders) -> tuple[Integers, Flags, Flags]:
    """A key per answer, the same for equal answers of a problem, and whether it is right.

    The last are the problems in which all answers were compared in time.
    """
    # "No answer" has a text number too; it is never compared.
    key_T = np.append(counts.texts.key_T, len(counts.texts.key_T))
    key_A = key_T[counts.text_A]
    correct_A, open_A = _compare_with_references(counts, key_T)
    voted_A = counts.answered_A & (counts.votes_A > 0)
    unclear_P = _need_graders(counts, voted_A)
    open_problems = np.flatnonzero(unclear_P | (counts.per_problem(open_A.astype(np.int64)) > 0))
    compared_P = np.ones(len(unclear_P), dtype=np.bool_)
    if open_problems.size == 0:
        return key_A, correct_A, compared_P
    ends = np.searchsorted(counts.problem_A, open_problems, side="right")
    begins = np.searchsorted(counts.problem_A, open_problems, side="left")
    spans = [np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)]
    grouped = [
        span[voted_A[span]] if unclear_P[problem] else span[:0]
        for problem, span in zip(open_problems, spans, strict=True)
    ]
    graded = [span[open_A[span]] for span in spans]
    findings = graders.compare(
        [
            _comparison(counts, problem, group, candidates)
            for problem, group, candidates in zip(open_problems, grouped, graded, strict=True)
        ]
    )
    found = zip(open_problems, grouped, graded, findings, strict=True)
    for problem, group, candidates, finding in found:
        key_of = {number: key for key, number in zip(key_A[group], finding.classes, strict=True)}
        key_A[group] = [key_of[number] for number in finding.classes]
        correct_A[candidates] = finding.correct
        compared_P[problem] = finding.compared
    return key_A, correct_A, compared_P


def _comparison(
    counts: AnswerCounts, problem: np.int64, group: Integers, candidates: Integers
) -> Comparison:
    texts = counts.texts
    reference = counts.reference_P[problem]
    return Comparison(
        answers=texts.take(counts.text_A[group]),
        candidates=texts.take(counts.text_A[candidates]),
        reference=texts.take(np.array([reference]))[0] if candidates.size else None,
        forms=texts.forms,
    )


def _compare_with_references(counts: AnswerCounts, key_T: Integers) -> tuple[Flags, Flags]:
    """Which answers are right by their keys, and which the graders must compare."""
    open_T = np.append(counts.texts.open_T, False)
    reference_A = counts.reference_P[counts.problem_A]
    known_A = (reference_A != UNKNOWN) & counts.answered_A
    correct_A = known_A & (key_T[counts.text_A] == key_T[reference_A])
    return correct_A, known_A & ~correct_A & (open_T[counts.text_A] | open_T[reference_A])


def _need_graders(counts: AnswerCounts, voted_A: Flags) -> Flags:
    """Which problems have several answers, and among them one that keys do not decide."""
    open_A = voted_A & np.append(counts.texts.open_T, False)[counts.text_A]
    several_P = counts.per_problem(voted_A.astype(np.int64)) > 1
    return several_P & (counts.per_problem(open_A.astype(np.int64)) > 0)
