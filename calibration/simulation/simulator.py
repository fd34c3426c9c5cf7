"""Simulates a procedure on recorded rollouts under many policies at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.policy.exit_rule import FULL_BUDGET, ExitPolicy
from calibration.policy.exit_search import ENDINGS, Ending, StopFinder
from calibration.policy.voting import NO_ANSWER, is_answered, take_votes
from calibration.simulation.risks import Outcomes
from calibration.traces.traces import Traces

_ANSWERED, _CORRECT, _TOKENS = 2, 1, 4
"""The outcome of one rollout as one number: tokens * 4 + answered * 2 + correct."""


class Simulator:
    """Simulates draws of a procedure under policies (T); holds what all rollouts share."""

    def __init__(self, traces: Traces, policies: Sequence[ExitPolicy], vote: str) -> None:
        self.traces = traces
        self.vote = vote
        self.min_share_T = np.array([policy.lambda_vote for policy in policies])
        self._finder = StopFinder(policies)
        self._full = StopFinder([FULL_BUDGET])

    def stopped(self, rows_R: NDArray[np.intp]) -> "StoppedRollouts":
        """Some rows of the traces, at their stops."""
        traces = self.traces
        readings = traces.tokens_RC[rows_R], traces.confidence_RC[rows_R], traces.final_R[rows_R]
        return StoppedRollouts(
            self,
            _StopOutcomes(traces, rows_R),
            stop_RT=self._finder.find(*readings),
            full_R1=self._full.find(*readings),
        )


class _StopOutcomes:
    """The outcome of each rollout (R) at each possible stop (S, numbered as in `StopFinder`).

    Attributes:
        outcome_RS: tokens, answered and correct, as one number.
        class_RS: class of the answer; NO_ANSWER where none is given.
        confidence_RS: raw confidence.
        readings_R: tokens that all readings of a rollout cost; None if no reading costs any.
            `outcome_RS` includes those up to the stop.
    """

    def __init__(self, traces: Traces, rows_R: NDArray[np.intp]) -> None:
        has_answer_RC1 = traces.answer_class_RC[rows_R, :, None] != NO_ANSWER
        answers_E = np.arange(ENDINGS) <= Ending.LOW_ANSWERED
        # An answer that the model wrote by itself costs tokens, whether it is given or not.
        own_R1E = traces.natural_R[rows_R, None, None] & (
            np.arange(ENDINGS) == Ending.END_ABSTAINED
        )
        answered_RCE = has_answer_RC1 & answers_E
        correct_RCE = answered_RCE & traces.correct_RC[rows_R, :, None]
        tokens_RCE = traces.tokens_RC[rows_R, :, None] + np.where(
            answers_E | own_R1E, traces.answer_tokens_RC[rows_R, :, None], 0
        )
        self.readings_R: NDArray[np.int64] | None = None
        if traces.confidence_tokens_RC is not None:
            readings_RC = np.cumsum(traces.confidence_tokens_RC[rows_R], axis=1)
            self.readings_R = readings_RC[np.arange(len(rows_R)), traces.final_R[rows_R]]
            tokens_RCE += readings_RC[:, :, None]
        class_RCE = np.where(answered_RCE, traces.answer_class_RC[rows_R, :, None], NO_ANSWER)
        outcome_RCE = tokens_RCE * _TOKENS + answered_RCE * _ANSWERED + correct_RCE
        self.outcome_RS = outcome_RCE.reshape(len(rows_R), -1)
        self.class_RS = class_RCE.reshape(len(rows_R), -1)
        self.confidence_RS = np.repeat(traces.confidence_RC[rows_R], ENDINGS, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class StoppedRollouts:
    """Rollouts (R) at their stops under each policy (T), and at the full budget."""

    simulator: Simulator
    outcomes_of: _StopOutcomes
    stop_RT: NDArray[np.unsignedinteger[Any]]
    full_R1: NDArray[np.unsignedinteger[Any]]

    def outcomes(self, rollout_DN: NDArray[np.intp]) -> Outcomes:
        """The outcomes of draws, each of N of these rollouts."""
        simulate = self._merge if rollout_DN.shape[1] > 1 else self._alone
        outcome_DT, confidence_DT = simulate(self.stop_RT, rollout_DN, self.simulator.min_share_T)
        full_D1, _ = simulate(self.full_R1, rollout_DN, np.zeros(1))
        full_tokens_D = full_D1[:, 0] // _TOKENS
        if self.outcomes_of.readings_R is not None:  # the full budget needs no readings
            full_tokens_D -= self.outcomes_of.readings_R[rollout_DN].sum(axis=1)
        return Outcomes(
            answered_DT=(outcome_DT & _ANSWERED) != 0,
            correct_DT=(outcome_DT & _CORRECT) != 0,
            tokens_DT=outcome_DT // _TOKENS,
            confidence_DT=confidence_DT,
            full_correct_D=(full_D1[:, 0] & _CORRECT) != 0,
            full_tokens_D=full_tokens_D,
        )

    def _alone(
        self,
        stop_RT: NDArray[np.unsignedinteger[Any]],
        rollout_DN: NDArray[np.intp],
        min_share_T: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Outcome and confidence of single samples, draws x policies."""
        row_D = rollout_DN[:, 0]
        return (
            _take(self.outcomes_of.outcome_RS, stop_RT, row_D),
            _take(self.outcomes_of.confidence_RS, stop_RT, row_D),
        )

    def _merge(
        self,
        stop_RT: NDArray[np.unsignedinteger[Any]],
        rollout_DN: NDArray[np.intp],
        min_share_T: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Outcome and share of the vote, draws x policies."""

        def of_samples(value_RS: NDArray[Any]) -> NDArray[Any]:
            return np.stack([_take(value_RS, stop_RT, row_D) for row_D in rollout_DN.T])

        outcome_NDT = of_samples(self.outcomes_of.outcome_RS)
        class_NDT = of_samples(self.outcomes_of.class_RS)
        if self.simulator.vote == "majority":
            weight_NDT = np.ones(class_NDT.shape)
        else:
            weight_NDT = of_samples(self.outcomes_of.confidence_RS)
        votes = take_votes(np.moveaxis(class_NDT, 0, -1), np.moveaxis(weight_NDT, 0, -1))
        answered_DT = is_answered(
            rollout_DN.shape[1], votes.sample_X >= 0, votes.share_X, min_share_T
        )
        winner_1DT = np.maximum(votes.sample_X, 0)[None]
        flags_DT = np.take_along_axis(outcome_NDT, winner_1DT, axis=0)[0] % _TOKENS
        tokens_DT = (outcome_NDT // _TOKENS).sum(axis=0)
        return tokens_DT * _TOKENS + np.where(answered_DT, flags_DT, 0), votes.share_X


def _take(
    value_RS: NDArray[Any], stop_RT: NDArray[np.unsignedinteger[Any]], row_D: NDArray[np.intp]
) -> NDArray[Any]:
    """The values of some rows at their stops; flat indexing is several times as fast."""
    return np.asarray(value_RS.ravel().take(stop_RT[row_D] + value_RS.shape[1] * row_D[:, None]))
