"""From ballots to classes of equal answers, and which of them are right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from rlcm_serve.aggregation.ballots import UNKNOWN, AnswerCounts, Integers
from rlcm_serve.aggregation.graders import Comparison, Graders
from rlcm_serve.aggregation.texts import HARD
from rlcm_serve.answers.plain import Kind

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The classes (C) of answers that take part in the vote, by problem.

    Attributes:
        problem_C: ascending.
        ballot_C: the ballot whose text stands for the class: the most frequent one, then the
            shortest, then the first by its characters.
        first_C: rank of the class's first text by its characters, by which ties are drawn.
        weight_C: in units of 2**-40.
        correct_B: whether each ballot's answer equals the reference.
    """

    problem_C: Integers
    ballot_C: Integers
    first_C: Integers
    weight_C: Integers
    correct_B: Flags


def find_classes(ballots: AnswerCounts, rank_T: Integers, graders: Graders) -> Classes:
    """Puts equal answers together, those that take mathematics by asking the graders."""
    key_B, correct_B = _compare(ballots, graders)
    standing = np.flatnonzero(ballots.answered_B & (ballots.votes_B > 0))
    text = ballots.text_B[standing]
    length_T = _lengths(ballots)
    order = np.lexsort(
        (
            rank_T[text],
            length_T[text],
            -ballots.votes_B[standing],
            key_B[standing],
            ballots.problem_B[standing],
        )
    )
    standing = standing[order]
    problem, key = ballots.problem_B[standing], key_B[standing]
    is_first = (np.diff(problem, prepend=-1) != 0) | (np.diff(key, prepend=-1) != 0)
    starts = np.flatnonzero(is_first)
    if starts.size == 0:
        return Classes(starts, starts, starts, starts, correct_B)
    return Classes(
        problem_C=problem[starts],
        ballot_C=standing[starts],
        first_C=np.minimum.reduceat(rank_T[ballots.text_B[standing]], starts),
        weight_C=np.add.reduceat(ballots.weight_B[standing], starts),
        correct_B=correct_B,
    )


def _lengths(ballots: AnswerCounts) -> Integers:
    lengths: Integers = pc.utf8_length(ballots.texts.text_T).to_numpy().astype(np.int64)
    return lengths


def _compare(ballots: AnswerCounts, graders: Graders) -> tuple[Integers, Flags]:
    """A key for each ballot, the same for equal answers of a problem, and whether it is right."""
    # No answer reads as a text of its own, which is never asked about.
    key_T = np.append(ballots.texts.key_T, len(ballots.texts.key_T))
    key_B = key_T[ballots.text_B]
    correct_B, open_B = _hold_against_references(ballots, key_T)
    standing_B = ballots.answered_B & (ballots.votes_B > 0)
    unclear_P = _take_mathematics(ballots, standing_B)
    asked = np.flatnonzero(unclear_P | (ballots.per_problem(open_B.astype(np.int64)) > 0))
    if asked.size == 0:
        return key_B, correct_B
    ends = np.searchsorted(ballots.problem_B, asked, side="right")
    begins = np.searchsorted(ballots.problem_B, asked, side="left")
    spans = [np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)]
    grouped = [
        span[standing_B[span]] if unclear_P[problem] else span[:0]
        for problem, span in zip(asked, spans, strict=True)
    ]
    graded = [span[open_B[span]] for span in spans]
    findings = graders.compare(
        [
            _comparison(ballots, problem, group, candidates)
            for problem, group, candidates in zip(asked, grouped, graded, strict=True)
        ]
    )
    for group, candidates, finding in zip(grouped, graded, findings, strict=True):
        key_of = {number: key for key, number in zip(key_B[group], finding.classes, strict=True)}
        key_B[group] = [key_of[number] for number in finding.classes]
        correct_B[candidates] = finding.correct
    return key_B, correct_B


def _comparison(
    ballots: AnswerCounts, problem: np.int64, group: Integers, candidates: Integers
) -> Comparison:
    texts = ballots.texts
    reference = ballots.reference_P[problem]
    return Comparison(
        answers=texts.take(ballots.text_B[group]),
        candidates=texts.take(ballots.text_B[candidates]),
        reference=texts.take(np.array([reference]))[0] if candidates.size else None,
    )


def _hold_against_references(ballots: AnswerCounts, key_T: Integers) -> tuple[Flags, Flags]:
    """Which ballots are right at sight, and of which only mathematics can tell."""
    kind_T = np.append(ballots.texts.kind_T, HARD)
    reference_B = ballots.reference_P[ballots.problem_B]
    known_B = (reference_B != UNKNOWN) & ballots.answered_B
    correct_B = known_B & (key_T[ballots.text_B] == key_T[reference_B])
    kind_B, reference_kind_B = kind_T[ballots.text_B], kind_T[reference_B]
    hard_B = (kind_B == HARD) | (reference_kind_B == HARD)
    mixed_B = (kind_B == Kind.DECIMAL) & (reference_kind_B == Kind.NAME)
    mixed_B |= (kind_B == Kind.NAME) & (reference_kind_B == Kind.DECIMAL)
    return correct_B, known_B & ~correct_B & (hard_B | mixed_B)


def _take_mathematics(ballots: AnswerCounts, standing_B: Flags) -> Flags:
    """Which problems have answers whose equality is not seen (`plain_answers.open_pairs`)."""
    kind_B = np.append(ballots.texts.kind_T, HARD)[ballots.text_B]
    has = {
        kind: ballots.per_problem((standing_B & (kind_B == kind)).astype(np.int64)) > 0
        for kind in (HARD, Kind.DECIMAL, Kind.NAME)
    }
    several_P = ballots.per_problem(standing_B.astype(np.int64)) > 1
    return several_P & (has[HARD] | (has[Kind.DECIMAL] & has[Kind.NAME]))
