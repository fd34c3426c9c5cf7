"""Some recorded rollouts, and where a certified policy stops them."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.certificate.levels import CertifiedLevel
from calibration.policy.exit_rule import ExitPolicy, ExitReason
from calibration.policy.exit_search import find_exits, smoothed
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.risks import Risk
from calibration.testing.families import full_budget
from calibration.traces.traces import Traces

PER_OUTCOME = 3
"""Rollouts shown of each outcome."""

RIGHT, WRONG, NOT_ANSWERED = "right", "wrong", "not answered"
OUTCOMES = (RIGHT, WRONG, NOT_ANSWERED)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One rollout under one policy.

    Attributes:
        problem_id: its problem.
        rollout: number within the problem.
        outcome: one of `OUTCOMES`, of the answer at the stop.
        reason: why it stopped.
        stop: column of the reading it stopped at.
        tokens_C: reasoning tokens at each reading, the final one last.
        confidence_C: raw confidence.
        smoothed_C: what the thresholds are compared with; the raw confidence without smoothing.
        correct_C: whether the answer there would have been right.
    """

    problem_id: str
    rollout: int
    outcome: str
    reason: ExitReason
    stop: int
    tokens_C: NDArray[np.int64]
    confidence_C: NDArray[np.float64]
    smoothed_C: NDArray[np.float64]
    correct_C: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Samples:
    """Rollouts by outcome, all under one policy.

    Attributes:
        alpha: the level whose policy it is; None if nothing is certified, and then the policy is
            the full budget.
        policy: whose thresholds are shown.
        rollouts: right, wrong, not answered, in this order; at most `PER_OUTCOME` of each.
    """

    alpha: float | None
    policy: ExitPolicy
    rollouts: tuple[Sample, ...]


def choose_samples(certificate: Certificate, traces: Traces, risk: Risk) -> Samples:
    """Rollouts under the policy of the smallest certified level, one per problem.

    Of each outcome the first by a hash of their names: no eye has picked them.
    """
    alpha, policy = None, full_budget(risk)
    for level in certificate.levels:
        if isinstance(level, CertifiedLevel):
            alpha, policy = level.alpha, level.policy
            break
    exits = find_exits([policy], traces.tokens_RC, traces.confidence_RC, traces.final_R)
    stop_R, rows_R = exits.stop_RT[:, 0], np.arange(traces.n_rollouts)
    answered_R = exits.answered_RT[:, 0] & (traces.answer_class_RC[rows_R, stop_R] != NO_ANSWER)
    correct_R = traces.correct_RC[rows_R, stop_R]
    fired_R = np.select(
        [exits.high_RT[:, 0], exits.low_RT[:, 0], traces.natural_R],
        [ExitReason.HIGH, ExitReason.LOW, ExitReason.NATURAL],
        ExitReason.BUDGET,
    )
    chosen = [
        _sample(traces, row, policy, int(stop_R[row]), ExitReason(fired_R[row]), outcome)
        for outcome, is_R in zip(
            OUTCOMES, (answered_R & correct_R, answered_R & ~correct_R, ~answered_R), strict=True
        )
        for row in _first_by_hash(traces, np.flatnonzero(is_R))
    ]
    return Samples(alpha, policy, tuple(chosen))


def _first_by_hash(traces: Traces, rows: NDArray[np.intp]) -> list[int]:
    """One rollout of each of a few problems."""
    first_of: dict[str, int] = {}
    for row in rows.tolist():
        first_of.setdefault(traces.problem_ids[traces.problem_R[row]], row)
    ranked = sorted(first_of, key=lambda name: hashlib.sha256(name.encode()).digest())
    return [first_of[name] for name in ranked[:PER_OUTCOME]]


def _sample(
    traces: Traces, row: int, policy: ExitPolicy, stop: int, reason: ExitReason, outcome: str
) -> Sample:
    readings = slice(0, int(traces.final_R[row]) + 1)
    confidence_C = traces.confidence_RC[row, readings]
    return Sample(
        problem_id=traces.problem_ids[traces.problem_R[row]],
        rollout=int(traces.rollout_R[row]),
        outcome=outcome,
        reason=reason,
        stop=stop,
        tokens_C=traces.tokens_RC[row, readings],
        confidence_C=confidence_C,
        smoothed_C=smoothed(confidence_C[None], policy.smoothing)[0],
        correct_C=traces.correct_RC[row, readings],
    )
