"""What a confidence is worth to exits: its ranking at equal depth, its distance to the oracle exit.

Both look at the readings at checkpoints, where a rollout can stop, and not at the final one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.metrics.bootstrap import ratios_over_problems
from calibration.metrics.estimates import Estimate
from calibration.metrics.ranking import pairs_within
from calibration.metrics.resampling import (
    RESAMPLES,
    THREADS,
    percentile_estimate,
    resampled,
    with_width,
)
from calibration.policy.exit_rule import NEVER, ExitPolicy
from calibration.policy.exit_search import find_exits
from calibration.traces.traces import Traces

REGRETS = (0.01, 0.02, 0.05)
"""Shares of all rollouts whose right answer exits may lose."""

_THRESHOLDS = 100
_BLOCK = 20
"""Thresholds replayed at a time."""


def depth_auroc(traces: Traces, *, resamples: int = RESAMPLES) -> Estimate:
    """AUROC within question and depth, with its interval by resampling units.

    Take two rollouts of one question after the same number of tokens. If the answer of one is right
    there and that of the other is wrong: the probability that the right one has more confidence;
    ties count half. All such pairs count the same. A confidence that knows only how hard the
    question is, or how long the model has thought, has 0.5.

    It is undefined if there are no such pairs, for example with one rollout of each question.

    Args:
        traces: full rollouts; the confidence is judged as it was recorded.
        resamples: number of resamples.
    """
    checkpoint_RC = np.arange(traces.tokens_RC.shape[1]) < traces.final_R[:, None]
    if not checkpoint_RC.any():
        return Estimate(None)
    problem_N = np.repeat(traces.problem_R, traces.final_R)
    tokens_N = traces.tokens_RC[checkpoint_RC]
    place_N = problem_N * (tokens_N.max() + 1) + tokens_N
    _, first_K, place_N = np.unique(place_N, return_index=True, return_inverse=True)
    wins_K, pairs_K = pairs_within(
        place_N, traces.confidence_RC[checkpoint_RC], traces.correct_RC[checkpoint_RC]
    )
    wins_P, pairs_P = (
        np.bincount(problem_N[first_K], of_K, minlength=traces.n_problems)
        for of_K in (wins_K, pairs_K)
    )
    (found,) = ratios_over_problems(
        wins_P[:, None], pairs_P, unit_P=traces.unit_P, resamples=resamples
    )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class OracleExits:
    """The oracle exits of the rollouts that are right at their end; other rollouts have none.

    The oracle stops at the first reading, possibly the final one, from which on every answer is
    right.

    Attributes:
        row_O: row of each rollout with an oracle exit.
        tokens_O: reasoning and answer tokens at its oracle exit.
    """

    row_O: NDArray[np.intp]
    tokens_O: NDArray[np.int64]

    @classmethod
    def find(cls, traces: Traces) -> Self:
        """The oracle exits in these traces."""
        columns = np.arange(traces.tokens_RC.shape[1])
        wrong_RC = ~traces.correct_RC & (columns <= traces.final_R[:, None])
        exit_R = np.where(wrong_RC, columns + 1, 0).max(axis=1)
        row_O = np.flatnonzero(exit_R <= traces.final_R)
        at_O = row_O, exit_R[row_O]
        return cls(row_O, traces.tokens_RC[at_O] + traces.answer_tokens_RC[at_O])

    def mean_tokens(self, traces: Traces) -> Estimate:
        """Mean tokens at the oracle exit; undefined if there is none."""
        return self._mean(self.tokens_O, traces)

    def full_distance(self, traces: Traces) -> Estimate:
        """Mean tokens that the full budget takes beyond the oracle exit, without readings."""
        end_O = self.row_O, traces.final_R[self.row_O]
        full_O = traces.tokens_RC[end_O] + traces.answer_tokens_RC[end_O]
        return self._mean(full_O - self.tokens_O, traces)

    def _mean(self, value_O: NDArray[np.int64], traces: Traces) -> Estimate:
        problem_O = traces.problem_R[self.row_O]
        sum_P, count_P = (
            np.bincount(problem_O, of_O, minlength=traces.n_problems)
            for of_O in (value_O, np.ones(len(value_O)))
        )
        (mean,) = ratios_over_problems(sum_P[:, None], count_P, unit_P=traces.unit_P)
        return mean


def oracle_distances(
    traces: Traces,
    oracle: OracleExits,
    regrets: Sequence[float] = REGRETS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int = THREADS,
) -> tuple[Estimate, ...]:
    """Mean tokens from the oracle exit to the exit by confidence, for each regret, with intervals.

    An exit is the first checkpoint whose confidence reaches a threshold. The threshold falls from
    one that never fires, as long as the share of rollouts that lose their right answer is at most
    the regret. The mean is over the rollouts with an oracle exit; an exit before it counts as
    negative. Tokens are reasoning, answer and reading tokens. Each resample finds its own
    threshold. Undefined if there is no oracle exit.

    It uses the labels that it is judged by, so it compares confidences and promises nothing.

    Args:
        traces: full rollouts with the confidence that drives the exits.
        oracle: of the same rollouts.
        regrets: accepted shares, each in [0, 1].
        resamples: number of resamples.
        seed: seed of the draws.
        threads: number of threads; the result does not depend on it.
    """
    late_UT, lost_UT = _by_threshold(traces, oracle)
    n_units = len(late_UT)
    oracles_U = np.bincount(traces.unit_P[traces.problem_R[oracle.row_O]], minlength=n_units)
    rollouts_U = np.bincount(traces.unit_P[traces.problem_R])

    def distances(weight_BU: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        regret_BT = (weight_BU @ lost_UT) / (weight_BU @ rollouts_U)[:, None]
        distance_BT = np.full(regret_BT.shape, np.nan)
        count_B1 = (weight_BU @ oracles_U)[:, None]
        np.divide(weight_BU @ late_UT, count_B1, out=distance_BT, where=count_B1 > 0)
        kept_RBT = regret_BT <= np.array(regrets)[:, None, None]
        last_RB = np.logical_and.accumulate(kept_RBT, axis=2).sum(axis=2) - 1
        return {"distance": np.take_along_axis(distance_BT, last_RB.T, axis=1)}

    distance_BR = resampled(distances, n_units, resamples, seed, threads)["distance"]
    return tuple(with_width(percentile_estimate(one_B, n_units)) for one_B in distance_BR.T)


def _by_threshold(
    traces: Traces, oracle: OracleExits
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums over the rollouts of each unit (U), by falling threshold (T).

    Tokens beyond the oracle exit, and right answers that are lost.
    """
    rows = np.arange(traces.n_rollouts)
    right_O, unit_R = oracle.row_O, traces.unit_P[traces.problem_R]
    spent_RC = traces.tokens_RC + traces.answer_tokens_RC
    if traces.confidence_tokens_RC is not None:
        spent_RC = spent_RC + np.cumsum(traces.confidence_tokens_RC, axis=1)
    late: list[NDArray[np.int64]] = []
    lost: list[NDArray[np.int64]] = []
    for policies in _falling_thresholds(traces):
        stop_RT = find_exits(
            policies, traces.tokens_RC, traces.confidence_RC, traces.final_R
        ).stop_RT
        at_OT = rows[right_O, None], stop_RT[right_O]
        for sums, of_OT in (
            (late, spent_RC[at_OT] - oracle.tokens_O[:, None]),
            (lost, ~traces.correct_RC[at_OT]),
        ):
            sum_UT = np.zeros((int(unit_R.max()) + 1, len(policies)), dtype=np.int64)
            np.add.at(sum_UT, unit_R[right_O], of_OT)
            sums.append(sum_UT)
    return np.hstack(late), np.hstack(lost)


def _falling_thresholds(traces: Traces) -> Iterator[list[ExitPolicy]]:
    """Policies with one threshold: from the one that never fires down to the lowest reading."""
    checkpoint_RC = np.arange(traces.tokens_RC.shape[1]) < traces.final_R[:, None]
    readings_N = traces.confidence_RC[checkpoint_RC]
    shares = np.linspace(0, 1, _THRESHOLDS)
    levels = np.unique(np.quantile(readings_N, shares)) if readings_N.size else np.empty(0)
    policies = [ExitPolicy(lambda_high=level) for level in (NEVER, *levels[::-1].tolist())]
    for start in range(0, len(policies), _BLOCK):
        yield policies[start : start + _BLOCK]
