"""Ways of ending the samples of a vote early that no policy has, for comparison."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import ExitPolicy, Traces
from calibration.policy.exit_search import find_exits
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.procedure import Draws

EVERY = 4
"""Checkpoints between two rounds of forced answers."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Draws (D) of N samples at their exits, with their recorded rollouts.

    Attributes:
        traces: the recording.
        rollout_DN: row of each sample's rollout.
        depth_DN: reasoning tokens at the exit.
        answer_DN: tokens of the answer there.
        class_DN: its class.
        weight_DN: its weight in the vote.
        right_DN: whether it is right.
        by_confidence: whether the confidence is the weight; otherwise every sample has one vote.
    """

    traces: Traces
    rollout_DN: NDArray[np.intp]
    depth_DN: Ints
    answer_DN: Ints
    class_DN: Ints
    weight_DN: Floats
    right_DN: Bools
    by_confidence: bool


def samples_at(traces: Traces, draws: Draws, high: float, vote: str) -> Samples:
    """The samples of each draw where a policy with this λ2 and no other exit stops them."""
    policy = ExitPolicy(lambda_high=high)
    exits = find_exits([policy], traces.tokens_RC, traces.confidence_RC, traces.final_R)
    row_R, stop_R = np.arange(traces.n_rollouts), exits.stop_RT[:, 0]

    def at_exit(values_RC: NDArray[Any]) -> Any:
        return values_RC[row_R, stop_R][draws.rollout_DN]

    confidence_DN = at_exit(traces.confidence_RC)
    by_confidence = vote == "confidence"
    return Samples(
        traces,
        draws.rollout_DN,
        np.asarray(at_exit(traces.tokens_RC), dtype=np.int64),
        np.asarray(at_exit(traces.answer_tokens_RC), dtype=np.int64),
        np.asarray(at_exit(traces.answer_class_RC), dtype=np.int64),
        np.asarray(confidence_DN if by_confidence else np.ones(confidence_DN.shape), dtype=float),
        np.asarray(at_exit(traces.correct_RC), dtype=np.bool_),
        by_confidence,
    )


def certain_ends(samples: Samples) -> tuple[Bools, Floats]:
    """Ends samples once no vote can reach the leader's: right answers, and tokens, of each draw."""
    n = samples.depth_DN.shape[1]
    _, right_D, _ = leaders(samples.class_DN, samples.weight_DN, samples.right_DN)
    end_D = samples.depth_DN.max(axis=1)
    for depth_D in np.sort(samples.depth_DN, axis=1)[:, ::-1].T:
        ended_DN = samples.depth_DN <= depth_D[:, None]
        class_DN = np.where(ended_DN, samples.class_DN, NO_ANSWER)
        lead_D, _, first_D = leaders(class_DN, samples.weight_DN, samples.right_DN)
        missing_D = n - ended_DN.sum(axis=1)
        certain_D = (lead_D > missing_D) & (first_D > missing_D)
        end_D = np.where(certain_D, depth_D, end_D)
    return right_D, tokens_until(samples, end_D)


def forced_leads(samples: Samples, lead: float) -> tuple[Bools, Floats]:
    """Ends all samples once one answer leads among those that they have or would give now.

    Samples that think are asked at every fourth checkpoint, and pay for these answers.
    """
    traces, rows_DN = samples.traces, samples.rollout_DN
    n = rows_DN.shape[1]
    _, right_D, _ = leaders(samples.class_DN, samples.weight_DN, samples.right_DN)
    tokens_D = tokens_until(samples, samples.depth_DN.max(axis=1))
    paid_D = np.zeros(len(rows_DN))
    waits_D = np.ones(len(rows_DN), dtype=np.bool_)
    interval = int(traces.tokens_RC[:, 0].max())
    for column in range(EVERY - 1, traces.tokens_RC.shape[1], EVERY):
        depth = (column + 1) * interval
        thinks_DN = samples.depth_DN > depth
        waits_D &= thinks_DN.any(axis=1)
        if not waits_D.any():
            break
        asked_DN = thinks_DN & waits_D[:, None]
        paid_D += np.where(asked_DN, traces.answer_tokens_RC[rows_DN, column], 0).sum(axis=1)
        confidence_DN = np.nan_to_num(traces.confidence_RC[rows_DN, column])
        now_DN = confidence_DN if samples.by_confidence else np.ones(rows_DN.shape)
        lead_D, now_right_D, _ = leaders(
            np.where(thinks_DN, traces.answer_class_RC[rows_DN, column], samples.class_DN),
            np.where(thinks_DN, now_DN, samples.weight_DN),
            np.where(thinks_DN, traces.correct_RC[rows_DN, column], samples.right_DN),
        )
        ends_D = waits_D & (lead_D / n >= lead)
        spent_DN = np.where(thinks_DN, depth, samples.depth_DN + samples.answer_DN)
        tokens_D = np.where(ends_D, spent_DN.sum(axis=1), tokens_D)
        right_D = np.where(ends_D, now_right_D, right_D)
        waits_D &= ~ends_D
    return right_D, tokens_D + paid_D


def leaders(class_DN: Ints, weight_DN: Floats, right_DN: Bools) -> tuple[Floats, Bools, Floats]:
    """The lead of each draw's leader in weight, whether it is right, and its weight."""
    counts_DN = class_DN != NO_ANSWER
    same_DNN = (class_DN[:, :, None] == class_DN[:, None, :]) & counts_DN[:, None, :]
    tally_DN = np.where(counts_DN, (same_DNN * weight_DN[:, None, :]).sum(axis=2), 0.0)
    row_D, leader_D = np.arange(len(class_DN)), np.where(counts_DN, tally_DN, -1.0).argmax(axis=1)
    other_DN = counts_DN & (class_DN != class_DN[row_D, leader_D][:, None])
    first_D = tally_DN[row_D, leader_D]
    second_D = np.where(other_DN, tally_DN, 0.0).max(axis=1)
    return first_D - second_D, right_DN[row_D, leader_D] & counts_DN[row_D, leader_D], first_D


def tokens_until(samples: Samples, end_D: Ints) -> Floats:
    """Tokens of all samples, of which those that think on are ended at a depth."""
    whole_DN = samples.depth_DN + samples.answer_DN
    ended_DN = np.where(samples.depth_DN <= end_D[:, None], whole_DN, end_D[:, None])
    return np.asarray(ended_DN.sum(axis=1), dtype=np.float64)
