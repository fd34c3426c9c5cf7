"""What questions give an engine to do: tokens of each sample, drawn from recorded rollouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration import FULL_BUDGET, Certificate, ExitPolicy, Traces
from calibration.policy.exit_search import find_exits
from calibration.policy.vote_stop import vote_stop
from calibration.policy.voting import NO_ANSWER, Vote, confidence_vote, is_answered
from calibration.simulation.procedure import Procedure, simulate


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Questions (Q) under one policy.

    Attributes:
        tokens_QN: generated tokens of each sample, its thinking and its answer.
        declined_Q: whether the question ends without an answer, which the store remembers.
    """

    tokens_QN: NDArray[np.int64]
    declined_Q: NDArray[np.bool_]

    @property
    def mean_tokens(self) -> float:
        """Tokens of a question, all samples together."""
        return float(self.tokens_QN.sum(1).mean())


def under_certificate(traces: Traces, certificate: Certificate, alpha: float) -> Work:
    """The work of questions at a certified level.

    Raises:
        ValueError: the level is not certified.
    """
    policies = {one.alpha: one.policy for one in certificate.certified_levels}
    policy, fitted = policies.get(alpha), certificate.fingerprint
    if policy is None or fitted is None:
        raise ValueError(f"alpha {alpha} is not certified")
    return under(traces, policy, fitted.samples)


def at_full_budget(traces: Traces, samples: int) -> Work:
    """The work of the same questions without early exits."""
    return under(traces, FULL_BUDGET, samples)


def under(traces: Traces, policy: ExitPolicy, samples: int) -> Work:
    """The work of the draws that a certificate's replay takes from these rollouts."""
    draws = simulate(traces, Procedure(samples))
    exits = find_exits([policy], traces.tokens_RC, traces.confidence_RC, traces.final_R)
    row_R, stop_R = np.arange(traces.n_rollouts), exits.stop_RT[:, 0]
    answers_R = exits.answered_RT[:, 0]
    thinking_R = traces.tokens_RC[row_R, stop_R]
    own_R = (stop_R == traces.final_R) & traces.natural_R  # its own answer is generated anyway
    answering_R = np.where(answers_R | own_R, traces.answer_tokens_RC[row_R, stop_R], 0)
    class_R = np.where(answers_R, traces.answer_class_RC[row_R, stop_R], NO_ANSWER)
    confidence_R = traces.confidence_RC[row_R, stop_R]
    tokens_QN = np.empty(draws.rollout_DN.shape, np.int64)
    declined_Q = np.empty(draws.n_draws, bool)
    for number, rows in enumerate(draws.rollout_DN):
        thinking_N, answering_N = thinking_R[rows], answering_R[rows]
        vote_of = _Votes(class_R[rows].tolist(), confidence_R[rows].tolist())
        counted = vote_stop(thinking_N.tolist(), vote_of, policy.lambda_stop)
        depth = thinking_N[counted].max()
        reading = answering_N[thinking_N == depth].max()  # others go on while it is read
        whole_N = thinking_N + answering_N
        ends_N = np.isin(np.arange(samples), counted)
        tokens_QN[number] = np.where(ends_N, whole_N, np.minimum(whole_N, depth + reading))
        vote = vote_of(counted)
        has_winner = vote.winner is not None
        declined_Q[number] = not is_answered(samples, has_winner, vote.share, policy.lambda_vote)
    return Work(tokens_QN, declined_Q)


@dataclass(frozen=True, slots=True)
class _Votes:
    classes: list[int]
    confidence: list[float]

    def __call__(self, some: list[int]) -> Vote:
        """The vote among some samples, by their numbers."""
        return confidence_vote([self.classes[n] for n in some], [self.confidence[n] for n in some])
