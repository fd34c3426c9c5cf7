"""The accuracy of one answer from n rollouts, as a function of n (RLCM §5.2, App. F)."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.metrics.bootstrap import ratios_over_problems
from calibration.metrics.estimates import Estimate
from calibration.metrics.resampling import RESAMPLES, THREADS, with_width
from calibration.metrics.scores import ScoredRollouts
from calibration.metrics.share_intervals import shares_over_problems
from calibration.policy.voting import NO_ANSWER, WEIGHT_UNITS


@dataclass(frozen=True, slots=True)
class VoteCurves:
    """Shares of questions answered correctly with n rollouts, one entry per n.

    Attributes:
        n: number of rollouts that take part.
        pass_at_1: expected accuracy of a single rollout; the same for every n.
        majority: the most frequent answer.
        confidence: the answer with the highest total confidence.
        oracle: whether any of them is right (pass@n): the upper limit of any vote.
        gain: of `confidence` over `majority`, with the interval of paired resamples; empty in files
            of older evaluations.
    """

    n: tuple[int, ...]
    pass_at_1: tuple[Estimate, ...]
    majority: tuple[Estimate, ...]
    confidence: tuple[Estimate, ...]
    oracle: tuple[Estimate, ...]
    gain: tuple[Estimate, ...] = ()


_SETS = 1 << 17
"""Default number of sets of n rollouts that vote, for all problems together."""

_CELLS = 1 << 18
"""Tallies kept at a time, to fit a processor's cache."""


def vote_curves(
    scored: ScoredRollouts,
    n: Sequence[int],
    *,
    draws: int | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    threads: int = THREADS,
) -> VoteCurves:
    """The accuracy of votes of n rollouts, averaged over problems and over sets of n, for each n.

    Ties are broken at random among the leading answers. The result is the expected credit, so
    nothing is random. Rollouts without an answer have no vote; if no rollout has an answer, the
    question counts as wrong. If a grader contradicts itself and an answer class holds right and
    wrong rollouts, the class counts as right to the degree of its share. Confidences are rounded to
    multiples of 2**-40, as in `calibration.policy.voting`.

    `pass_at_1` and `oracle` are exact averages over all sets of n. The votes are averaged over some
    sets: a problem's rollouts are shuffled into a ring, and each n neighbours are a set, so that
    every rollout takes part equally often. For n = 1 and for all rollouts this is exact too. The
    intervals are those of `calibration.metrics.share_intervals`; they do not cover what other sets
    would change.

    Args:
        scored: the rollouts.
        n: numbers of rollouts that take part, each from 1 to the fewest rollouts of any problem.
        draws: sets per problem for each n, rounded up to whole rings; None for at least one ring
            and about 100,000 sets of all problems together.
        seed: seed of rings and resamples.
        resamples: number of resamples.
        threads: number of threads; the result does not depend on it.

    Raises:
        CalibrationError: n is empty or out of range, or there are no draws or no resamples.
    """
    n_rollouts_P, n_right_P = scored.rollouts_P, scored.right_P
    fewest, n = int(n_rollouts_P.min()), tuple(n)
    if not n or not 1 <= min(n) <= max(n) <= fewest:
        raise CalibrationError(
            f"n is {list(n)} and a problem has {fewest} rollouts: give numbers from 1 to this"
        )
    if draws is not None and draws < 1:
        raise CalibrationError(f"draws is {draws}: give 1 or more")
    draws = _SETS // scored.n_problems if draws is None else draws
    answers = _SortedRollouts(scored)
    curves = [
        np.repeat((n_right_P / n_rollouts_P)[:, None], len(n), axis=1),
        *_vote_credits(answers, n, draws, seed, threads),
        np.column_stack([pass_at_k(n_rollouts_P, n_right_P, k) for k in n]),
    ]
    found = shares_over_problems(
        np.hstack(curves),
        np.ones(scored.n_problems),
        unit_P=scored.unit_P,
        rollouts=int(n_rollouts_P.sum()),
    )
    _, majority_PN, confidence_PN, _ = curves
    gains = ratios_over_problems(
        confidence_PN - majority_PN,
        np.ones(scored.n_problems),
        unit_P=scored.unit_P,
        resamples=resamples,
        seed=seed,
        threads=threads,
    )
    once, majority, confidence, oracle = (
        found[i * len(n) : (i + 1) * len(n)] for i in range(len(curves))
    )
    return VoteCurves(n, once, majority, confidence, oracle, tuple(map(with_width, gains)))


def pass_at_k(
    n_rollouts_P: NDArray[np.integer[Any]], n_right_P: NDArray[np.integer[Any]], k: int
) -> NDArray[np.float64]:
    """The probability that one of k rollouts is right, of each problem (Chen et al. 2021).

    It is the share of all sets of k rollouts that contain a right one, 1 - C(n - c, k) / C(n, k).
    This is unbiased, while 1 - (1 - c/n)^k is too low.

    Args:
        n_rollouts_P: recorded rollouts of each problem.
        n_right_P: number of right ones.
        k: size of the sets.

    Raises:
        CalibrationError: k is below 1, or a problem has fewer rollouts.
    """
    if not 1 <= k <= int(n_rollouts_P.min()):
        raise CalibrationError(
            f"k is {k} and a problem has {int(n_rollouts_P.min())} rollouts: give 1 to this number"
        )
    none_right_P = np.ones(n_rollouts_P.shape)
    for taken in range(k):
        none_right_P *= np.maximum(n_rollouts_P - n_right_P - taken, 0) / (n_rollouts_P - taken)
    return 1 - none_right_P


class _SortedRollouts:
    """Rollouts sorted by problem, answer and confidence, so that their first order is ignored.

    Attributes:
        first_P: index of each problem's first rollout.
        rollouts_P: number of each problem's rollouts.
        class_R: answer, numbered 0, 1, ... within the problem; NO_ANSWER for none.
        right_R: share right among the problem's rollouts with that answer.
        weight_R: confidence in units of 2**-40.
    """

    def __init__(self, scored: ScoredRollouts) -> None:
        order_R = np.lexsort((scored.confidence_R, scored.answer_class_R, scored.problem_R))
        problem_R, class_R = scored.problem_R[order_R], scored.answer_class_R[order_R]
        first_R = np.append(True, problem_R[1:] != problem_R[:-1])
        new_R = first_R | np.append(True, class_R[1:] != class_R[:-1])
        answer_R = np.cumsum(new_R) - 1  # numbered over all problems
        right_A = np.bincount(answer_R, scored.correct_R[order_R]) / np.bincount(answer_R)
        self.first_P = np.flatnonzero(first_R)
        self.rollouts_P = np.diff(self.first_P, append=len(order_R))
        code_R = answer_R - np.repeat(answer_R[self.first_P], self.rollouts_P)
        self.class_R = np.where(class_R == NO_ANSWER, NO_ANSWER, code_R)
        self.right_R = right_A[answer_R]
        self.weight_R = np.rint(scored.confidence_R[order_R] * WEIGHT_UNITS).astype(np.int64)


def _vote_credits(
    answers: _SortedRollouts, n: tuple[int, ...], draws: int, seed: int, threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Credit of majority and of confidence-weighted votes, by problem and n."""
    shape = (len(answers.first_P), len(n))
    majority_PN, confidence_PN = np.zeros(shape), np.zeros(shape)

    def work(problem_B: NDArray[np.intp]) -> None:
        rows_VS = _rings(answers, problem_B, n, draws, seed)
        class_VS, right_VS = answers.class_R[rows_VS], answers.right_R[rows_VS]
        heads_VS = np.ones_like(class_VS)
        _, starts = _ring_shape(rows_VS.shape[1], n, draws)
        for weight_VS, credit_PN in (
            (heads_VS, majority_PN),
            (answers.weight_R[rows_VS], confidence_PN),
        ):
            credit_VN = _ring_credits(class_VS, weight_VS, right_VS, n, starts)
            credit_PN[problem_B] = credit_VN.reshape(len(problem_B), -1, len(n)).mean(axis=1)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, _blocks(answers, n, draws)))
    return majority_PN, confidence_PN


def _blocks(answers: _SortedRollouts, n: tuple[int, ...], draws: int) -> Iterator[NDArray[np.intp]]:
    """Problems with the same number of rollouts, as many at a time as fit a processor's cache."""
    for rollouts in np.unique(answers.rollouts_P).tolist():
        problem_G = np.flatnonzero(answers.rollouts_P == rollouts)
        rings, starts = _ring_shape(rollouts, n, draws)
        size = max(1, _CELLS // (rings * starts * (rollouts + 1)))
        yield from np.split(problem_G, range(size, len(problem_G), size))


def _ring_shape(rollouts: int, n: tuple[int, ...], draws: int) -> tuple[int, int]:
    """The number of rings per problem, and of places of a ring at which sets begin."""
    if min(n) == rollouts:
        return 1, 1  # there is one set
    return max(1, math.ceil(draws / rollouts)), rollouts


def _rings(
    answers: _SortedRollouts, problem_B: NDArray[np.intp], n: tuple[int, ...], draws: int, seed: int
) -> NDArray[np.intp]:
    """Each problem's rollouts (S) in several random orders (V), those of a problem adjacent."""
    rollouts = int(answers.rollouts_P[problem_B[0]])
    rings, _ = _ring_shape(rollouts, n, draws)
    rng = np.random.default_rng((seed, int(problem_B[0])))
    order_VS = rng.random((len(problem_B) * rings, rollouts)).argsort(axis=1)
    return np.asarray(np.repeat(answers.first_P[problem_B], rings)[:, None] + order_VS)


def _ring_credits(
    class_VS: NDArray[np.int64],
    weight_VS: NDArray[np.int64],
    right_VS: NDArray[np.float64],
    n: tuple[int, ...],
    starts: int,
) -> NDArray[np.float64]:
    """Expected credit of a vote of n neighbours, averaged over the places where sets begin.

    All sets grow together, one rollout at a time: only the answer of the new rollout can take the
    lead.

    Args:
        class_VS: answer at each place (S) of a ring (V), below the number of places.
        weight_VS: its weight, a whole number.
        right_VS: the degree to which it is right.
        n: sizes of sets (N).
        starts: number of places where sets begin.

    Returns:
        Credit by ring and size, (V, N).
    """
    n_rings, places = class_VS.shape
    # Rollouts without an answer have a separate tally; with this weight it never leads.
    weight_VS = np.where(class_VS == NO_ANSWER, -2, weight_VS)
    class_VS = np.where(class_VS == NO_ANSWER, places, class_VS)
    shape, tallies = (n_rings, starts), places + 1
    first_VS = np.arange(n_rings * starts).reshape(shape) * tallies
    tally = np.full(n_rings * starts * tallies, -1, dtype=np.int64)  # -1: no vote yet
    most_VS = np.full(shape, -1, dtype=np.int64)
    leaders_VS, right_leaders_VS = np.ones(shape), np.zeros(shape)
    credit_VN = np.empty((n_rings, len(n)))
    for size in range(1, max(n) + 1):
        place_S = (np.arange(starts) + size - 1) % places
        given_VS = right_VS[:, place_S]
        cell_VS = first_VS + class_VS[:, place_S]
        before_VS = tally[cell_VS]
        after_VS = np.maximum(before_VS, 0) + weight_VS[:, place_S]
        tally[cell_VS] = after_VS
        leads_VS = after_VS > most_VS
        # An answer whose tally already leads and does not grow is not another leader.
        joins_VS = (after_VS == most_VS) & (before_VS < most_VS)
        leaders_VS = np.where(leads_VS, 1.0, leaders_VS + joins_VS)
        right_leaders_VS = np.where(leads_VS, given_VS, right_leaders_VS + joins_VS * given_VS)
        np.maximum(most_VS, after_VS, out=most_VS)
        for i in [i for i, wanted in enumerate(n) if wanted == size]:
            credit_VN[:, i] = (right_leaders_VS / leaders_VS).mean(axis=1)
    return credit_VN
