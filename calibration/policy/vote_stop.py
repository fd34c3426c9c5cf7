"""The vote stop: several samples of a question end as soon as one answer leads far enough.

The clock is the depth of the thinking: the number of reasoning tokens of a sample, not the time at
which it got there. At depth t the votes of those samples count that have ended with at most t
tokens. The lead is the leader's weight minus that of the next answer (0 if there is none), as a
share of n, the number of samples. The vote stops at the first depth at which the lead is at least
`ExitPolicy.lambda_stop`. Samples that think longer than that have no vote and give no answer.

Which votes count so depends on the samples alone and not on how fast each of them ran: a service
that runs them at the same time, in any order, gets the outcome of a replay on recorded rollouts. It
must wait until every sample has ended or has thought longer than t before it stops at t, and drop
what samples did beyond.

The rule has two forms: `ends_vote` for votes counted depth by depth, and `find_vote_stops` for
replay. A property test checks that both stop at the same depth. Change them together.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.policy.voting import NO_ANSWER, WEIGHT_UNITS, Vote


def ends_vote(vote: Vote, samples: int, least: float) -> bool:
    """Whether the vote among the samples that have ended stops the others.

    Args:
        vote: the vote at one depth.
        samples: number of samples of the question, ended or not.
        least: `ExitPolicy.lambda_stop`.
    """
    first, second = sorted((*vote.tally.values(), 0.0, 0.0), reverse=True)[:2]
    return samples > 1 and (first - second) / samples >= least


def vote_stop(
    depths: Sequence[int], vote_of: Callable[[list[int]], Vote], least: float
) -> list[int]:
    """The samples whose votes count, by their numbers, among samples that have all ended.

    Args:
        depths: reasoning tokens of each sample.
        vote_of: the vote among some samples, given by their numbers.
        least: `ExitPolicy.lambda_stop`.
    """
    counted: list[int] = list(range(len(depths)))
    for depth in sorted(set(depths)) if least <= 1 else ():
        counted = [number for number, own in enumerate(depths) if own <= depth]
        if ends_vote(vote_of(counted), len(depths), least):
            break
    return counted


def find_vote_stops(
    depth_NX: NDArray[np.int64],
    class_NX: NDArray[np.int64],
    weight_NX: NDArray[np.float64],
    least_X: NDArray[np.float64],
) -> NDArray[np.int64]:
    """The depth at which each of many votes (X) of N samples stops; the last one if none leads.

    Args:
        depth_NX: reasoning tokens of each sample.
        class_NX: class of its answer, NO_ANSWER where there is none.
        weight_NX: its weight, in [0, 1].
        least_X: `ExitPolicy.lambda_stop`.
    """
    n = len(depth_NX)
    order_NX = np.argsort(depth_NX, axis=0, kind="stable")
    weight_NX = np.where(class_NX == NO_ANSWER, 0.0, np.rint(weight_NX * WEIGHT_UNITS))
    depth_NX = np.take_along_axis(depth_NX, order_NX, axis=0)
    class_NX = np.take_along_axis(class_NX, order_NX, axis=0)
    weight_NX = np.take_along_axis(weight_NX / WEIGHT_UNITS, order_NX, axis=0)
    stop_X: NDArray[np.int64] = depth_NX[-1].copy()
    waits_X = np.ones(stop_X.shape, dtype=np.bool_)
    tally_NX = np.zeros(depth_NX.shape)
    for k in range(n - 1):
        tally_NX += np.where(class_NX == class_NX[k], weight_NX[k], 0.0)
        ended_KX, class_KX = tally_NX[: k + 1], class_NX[: k + 1]
        leader_1X = ended_KX.argmax(axis=0)[None]
        first_1X = np.take_along_axis(ended_KX, leader_1X, axis=0)
        is_leader_KX = class_KX == np.take_along_axis(class_KX, leader_1X, axis=0)
        second_X = np.where(is_leader_KX, 0.0, ended_KX).max(axis=0)
        # Samples that ended at the same depth are counted together.
        stops_X = waits_X & (depth_NX[k] < depth_NX[k + 1])
        stops_X &= (first_1X[0] - second_X) / n >= least_X
        stop_X[stops_X] = depth_NX[k][stops_X]
        waits_X &= ~stops_X
    return stop_X
