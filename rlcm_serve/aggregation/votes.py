"""The vote on each problem of a batch: the winner, its share, and whether it is right."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlcm_serve.aggregation.answer_counts import (
    UNIT,
    UNKNOWN,
    AnswerCounts,
    Integers,
    count_answers,
)
from rlcm_serve.aggregation.classes import Classes, find_classes
from rlcm_serve.aggregation.graders import Graders
from rlcm_serve.aggregation.results import RESULTS
from rlcm_serve.aggregation.rollouts import Places
from rlcm_serve.aggregation.rules import VoteOptions


def take_votes(
    rollouts: pa.RecordBatch, options: VoteOptions, graders: Graders, places: Places
) -> pa.RecordBatch:
    """One result per problem (P), in the order of their first rows.

    Args:
        rollouts: rows that contain every row of their problems.

    Raises:
        RequestRefused: a problem has two references, or too many rollouts.
        RuntimeError: answers could not be compared.
    """
    counts = count_answers(rollouts, options, places, graders.read)
    rank_T = counts.texts.ranks()
    classes = find_classes(counts, rank_T, graders)
    winner_P, most_P, tied_P = _find_winners(counts, classes, options.seed)
    won_P = winner_P >= 0
    rollouts_P = counts.per_problem(counts.rollouts_A)
    total_P = counts.per_problem(counts.weight_A)
    known_P = counts.reference_P != UNKNOWN
    right_P = counts.per_problem(counts.rollouts_A * classes.correct_A)
    answer_P = _at(classes.answer_C, winner_P)
    columns = {
        "problem_id": counts.problem_P,
        "answer": counts.texts.text_T.take(pa.array(_at(counts.text_A, answer_P), mask=~won_P)),
        "confidence": pa.array(
            np.divide(most_P, total_P, out=np.zeros(len(most_P)), where=won_P & (total_P > 0))
        ),
        "tally": _tally(counts, classes, rank_T),
        "classes": pa.array(np.bincount(classes.problem_C, minlength=len(won_P))),
        "rollouts": pa.array(rollouts_P),
        "kept": pa.array(counts.per_problem(counts.votes_A)),
        "tied": pa.array(tied_P),
        "correct": pa.array(won_P & classes.correct_A[answer_P], mask=~known_P),
        "pass_at_1": pa.array(right_P / rollouts_P, mask=~known_P),
        "oracle": pa.array(right_P > 0, mask=~known_P),
        "compared": pa.array(classes.compared_P),
        "row": pa.array(counts.row_P),
    }
    return pa.record_batch([columns[name] for name in RESULTS.names], schema=RESULTS)


def draw(seed: int, problem_id: str, count: int) -> int:
    """Which of `count` tied classes wins, uniformly at random.

    The choice does not depend on the order of rows or on other problems.
    """
    digest = hashlib.blake2b(f"{seed}:{problem_id}".encode(errors="surrogatepass"), digest_size=16)
    return int.from_bytes(digest.digest(), "big") % count


def _find_winners(
    counts: AnswerCounts, classes: Classes, seed: int
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """The winning class of each problem (-1: no answers), its weight, and whether it tied."""
    problems = len(counts.row_P)
    winner_P, most_P = np.full(problems, -1), np.zeros(problems, dtype=np.int64)
    starts = np.flatnonzero(np.diff(classes.problem_C, prepend=-1))
    if starts.size == 0:
        return winner_P, most_P, np.zeros(problems, dtype=np.bool_)
    voted = classes.problem_C[starts]
    most_P[voted] = np.maximum.reduceat(classes.weight_C, starts)
    leading = np.flatnonzero(classes.weight_C == most_P[classes.problem_C])
    # Ordered by first text, so that the order of rows does not change the draw.
    leading = leading[np.lexsort((classes.first_C[leading], classes.problem_C[leading]))]
    begins = np.flatnonzero(np.diff(classes.problem_C[leading], prepend=-1))
    sizes = np.diff(begins, append=len(leading))
    for at in np.flatnonzero(sizes > 1).tolist():
        problem_id = counts.problem_P[int(voted[at])].as_py()
        begins[at] += draw(seed, problem_id, int(sizes[at]))
    winner_P[voted] = leading[begins]
    tied_P = np.zeros(problems, dtype=np.bool_)
    tied_P[voted] = sizes > 1
    return winner_P, most_P, tied_P


def _tally(counts: AnswerCounts, classes: Classes, rank_T: Integers) -> pa.MapArray:
    """The weight of each class of each problem, the heaviest first."""
    text_C = counts.text_A[classes.answer_C]
    order = np.lexsort((rank_T[text_C], -classes.weight_C, classes.problem_C))
    sizes = np.bincount(classes.problem_C, minlength=len(counts.row_P))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        counts.texts.text_T.take(pa.array(text_C[order])),
        pa.array(classes.weight_C[order] / UNIT),
    )


def _at(values: Integers, places: Integers) -> Integers:
    """The values at these places; arbitrary where the place is -1 or there are no values."""
    return values[places] if len(values) else np.zeros(len(places), dtype=np.int64)
