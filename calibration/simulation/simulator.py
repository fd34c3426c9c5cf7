"""Simulates a procedure on recorded rollouts under many policies at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibration.policy.exit_rule import FULL_BUDGET, ExitPolicy
from calibration.policy.exit_search import ENDINGS, Ending, StopFinder
from calibration.policy.vote_stop import find_vote_stops
from calibration.policy.voting import NO_ANSWER, is_answered, take_votes
from calibration.simulation.risks import Outcomes
from calibration.traces.traces import Traces

Found = TypeVar("Found")

_ANSWERED, _CORRECT, _TOKENS = 2, 1, 4
"""The outcome of one rollout as one number: tokens * 4 + answered * 2 + correct."""


class Simulator:
    """Simulates draws of a procedure under policies (T); holds what all rollouts share."""

    def __init__(self, traces: Traces, policies: Sequence[ExitPolicy], vote: str) -> None:
        self.traces = traces
        self.vote = vote
        self.min_share_T = np.array([policy.lambda_vote for policy in policies])
        self.min_lead_T = np.array([policy.lambda_stop for policy in policies])
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
        answer_RS: tokens of the answer, 0 where none is made.
        readings_RC: tokens that the readings cost up to each of them; None if no reading costs any.
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
        answer_RCE = np.where(answers_E | own_R1E, traces.answer_tokens_RC[rows_R, :, None], 0)
        self.traces, self.rows_R = traces, rows_R
        self.readings_RC: NDArray[np.int64] | None = None
        tokens_RCE = traces.tokens_RC[rows_R, :, None] + answer_RCE
        if traces.confidence_tokens_RC is not None:
            self.readings_RC = np.cumsum(traces.confidence_tokens_RC[rows_R], axis=1)
            tokens_RCE += self.readings_RC[:, :, None]
        class_RCE = np.where(answered_RCE, traces.answer_class_RC[rows_R, :, None], NO_ANSWER)
        outcome_RCE = tokens_RCE * _TOKENS + answered_RCE * _ANSWERED + correct_RCE
        self.outcome_RS = outcome_RCE.reshape(len(rows_R), -1)
        self.class_RS = class_RCE.reshape(len(rows_R), -1)
        self.answer_RS = answer_RCE.reshape(len(rows_R), -1)
        self.confidence_RS = np.repeat(traces.confidence_RC[rows_R], ENDINGS, axis=1)

    @cached_property
    def depth_RS(self) -> NDArray[np.int64]:
        """Reasoning tokens."""
        return np.repeat(self.traces.tokens_RC[self.rows_R], ENDINGS, axis=1)

    @property
    def all_readings_R(self) -> NDArray[np.int64]:
        """Tokens that all readings of a rollout cost."""
        if self.readings_RC is None:
            return np.zeros(len(self.rows_R), dtype=np.int64)
        all_R: NDArray[np.int64] = self.readings_RC[
            np.arange(len(self.rows_R)), self.traces.final_R[self.rows_R]
        ]
        return all_R

    def readings_until(
        self, depth_DS: NDArray[np.integer[Any]], row_D: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Tokens that the checkpoints of rollouts cost up to a depth."""
        if self.readings_RC is None:
            return np.zeros(depth_DS.shape, dtype=np.int64)
        rows_D = self.rows_R[row_D]
        checkpoint_DC = (
            np.arange(self.traces.tokens_RC.shape[1]) < self.traces.final_R[rows_D, None]
        )
        passed_DSC = self.traces.tokens_RC[rows_D, None, :] <= depth_DS[:, :, None]
        count_DS = (passed_DSC & checkpoint_DC[:, None, :]).sum(axis=2)
        cost_DC = np.pad(self.readings_RC[row_D], ((0, 0), (1, 0)))
        return np.take_along_axis(cost_DC, count_DS, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class StoppedRollouts:
    """Rollouts (R) at their stops under each policy (T), and at the full budget."""

    simulator: Simulator
    outcomes_of: _StopOutcomes
    stop_RT: NDArray[np.unsignedinteger[Any]]
    full_R1: NDArray[np.unsignedinteger[Any]]

    def outcomes(self, rollout_DN: NDArray[np.intp]) -> Outcomes:
        """The outcomes of draws, each of N of these rollouts."""
        merges = rollout_DN.shape[1] > 1
        (outcome_DT, confidence_DT), (full_D1, _) = self._each(
            self._merge if merges else self._alone, rollout_DN
        )
        # The full budget needs no readings.
        readings_D = self.outcomes_of.all_readings_R[rollout_DN].sum(axis=1)
        full_tokens_D = full_D1[:, 0] // _TOKENS - readings_D
        return Outcomes(
            answered_DT=(outcome_DT & _ANSWERED) != 0,
            correct_DT=(outcome_DT & _CORRECT) != 0,
            tokens_DT=outcome_DT // _TOKENS,
            confidence_DT=confidence_DT,
            full_correct_D=(full_D1[:, 0] & _CORRECT) != 0,
            full_tokens_D=full_tokens_D,
        )

    def answer_classes(
        self, rollout_DN: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The class of each draw's answer under each policy (D, T), and at the full budget (D).

        NO_ANSWER where none is given. No label is read.
        """
        given_DT, full_D1 = self._each(self._class_given, rollout_DN)
        return given_DT, full_D1[:, 0]

    def _each(
        self,
        simulate: Callable[["_Stops", NDArray[np.intp]], Found],
        rollout_DN: NDArray[np.intp],
    ) -> tuple[Found, Found]:
        """What a function finds in draws under each policy, and at the full budget."""
        of, never = self.simulator, np.array([FULL_BUDGET.lambda_stop])
        return (
            simulate(_Stops(self.stop_RT, of.min_share_T, of.min_lead_T), rollout_DN),
            simulate(_Stops(self.full_R1, np.zeros(1), never), rollout_DN),
        )

    def _class_given(self, stops: "_Stops", rollout_DN: NDArray[np.intp]) -> NDArray[np.int64]:
        if rollout_DN.shape[1] == 1:
            return _take(self.outcomes_of.class_RS, stops.stop_RT, rollout_DN[:, 0])
        merged = self._vote(stops, rollout_DN)
        return np.where(merged.answered_DT, merged.of_winner(merged.class_NDT), NO_ANSWER)

    def _alone(
        self, stops: "_Stops", rollout_DN: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Outcome and confidence of single samples, draws x policies."""
        row_D = rollout_DN[:, 0]
        return (
            _take(self.outcomes_of.outcome_RS, stops.stop_RT, row_D),
            _take(self.outcomes_of.confidence_RS, stops.stop_RT, row_D),
        )

    def _merge(
        self, stops: "_Stops", rollout_DN: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Outcome and share of the vote, draws x policies."""
        merged = self._vote(stops, rollout_DN)
        flags_DT = merged.of_winner(merged.outcome_NDT) % _TOKENS
        tokens_DT = (merged.outcome_NDT // _TOKENS).sum(axis=0)
        return tokens_DT * _TOKENS + np.where(merged.answered_DT, flags_DT, 0), merged.share_DT

    def _vote(self, stops: "_Stops", rollout_DN: NDArray[np.intp]) -> "_Voted":
        """The samples of each draw, after some were ended by the vote, and their vote."""
        samples = self._samples(stops.stop_RT, rollout_DN)
        ends_T = stops.min_lead_T <= 1
        if ends_T.any():
            stop_RS = stops.stop_RT[:, ends_T]
            few = self._samples(stop_RS, rollout_DN)
            self._end_by_vote(few, stop_RS, rollout_DN, stops.min_lead_T[ends_T])
            for whole_NDT, cut_NDS in zip(samples, few, strict=True):
                whole_NDT[:, :, ends_T] = cut_NDS
        outcome_NDT, class_NDT, weight_NDT = samples
        votes = take_votes(np.moveaxis(class_NDT, 0, -1), np.moveaxis(weight_NDT, 0, -1))
        answered_DT = is_answered(
            rollout_DN.shape[1], votes.sample_X >= 0, votes.share_X, stops.min_share_T
        )
        winner_DT = np.maximum(votes.sample_X, 0)
        return _Voted(outcome_NDT, class_NDT, winner_DT, votes.share_X, answered_DT)

    def _samples(
        self, stop_RT: NDArray[np.unsignedinteger[Any]], rollout_DN: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Outcome, class and weight of each sample, samples x draws x policies."""
        of = self.outcomes_of
        outcome_NDT = _of_samples(of.outcome_RS, stop_RT, rollout_DN)
        class_NDT = _of_samples(of.class_RS, stop_RT, rollout_DN)
        if self.simulator.vote == "majority":
            return outcome_NDT, class_NDT, np.ones(class_NDT.shape)
        return outcome_NDT, class_NDT, _of_samples(of.confidence_RS, stop_RT, rollout_DN)

    def _end_by_vote(
        self,
        samples: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
        stop_RT: NDArray[np.unsignedinteger[Any]],
        rollout_DN: NDArray[np.intp],
        min_lead_T: NDArray[np.float64],
    ) -> None:
        """Take the votes of the samples that the vote ends, and shorten them; in place.

        While the answer that ends the vote is read, which takes as many steps as it has tokens, the
        other samples go on.
        """
        outcome_NDT, class_NDT, weight_NDT = samples
        depth_NDT = _of_samples(self.outcomes_of.depth_RS, stop_RT, rollout_DN)
        answer_NDT = _of_samples(self.outcomes_of.answer_RS, stop_RT, rollout_DN)
        least_DT = np.broadcast_to(min_lead_T, depth_NDT.shape[1:])
        end_DT = find_vote_stops(depth_NDT, class_NDT, weight_NDT, least_DT)
        ended_NDT = depth_NDT > end_DT
        reading_DT = np.where(depth_NDT == end_DT, answer_NDT, 0).max(axis=0)
        tokens_NDT = np.minimum(depth_NDT + answer_NDT, end_DT + reading_DT)
        tokens_NDT += np.stack(
            [self.outcomes_of.readings_until(end_DT, row_D) for row_D in rollout_DN.T]
        )
        outcome_NDT[ended_NDT] = (tokens_NDT * _TOKENS)[ended_NDT]
        class_NDT[ended_NDT] = NO_ANSWER
        weight_NDT[ended_NDT] = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Stops:
    """Where rollouts stop (R, T), and the share and lead that each policy's vote needs (T)."""

    stop_RT: NDArray[np.unsignedinteger[Any]]
    min_share_T: NDArray[np.float64]
    min_lead_T: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Voted:
    """The votes of draws (D) of several samples (N) under policies (T).

    Attributes:
        outcome_NDT: outcome of each sample, as in `_StopOutcomes`.
        class_NDT: class of its answer.
        winner_DT: the sample whose answer wins; the first if none has an answer.
        share_DT: the winner's share of the vote.
        answered_DT: whether the draw is answered.
    """

    outcome_NDT: NDArray[np.int64]
    class_NDT: NDArray[np.int64]
    winner_DT: NDArray[np.intp]
    share_DT: NDArray[np.float64]
    answered_DT: NDArray[np.bool_]

    def of_winner(self, value_NDT: NDArray[np.int64]) -> NDArray[np.int64]:
        """The winner's value in each draw."""
        return np.asarray(np.take_along_axis(value_NDT, self.winner_DT[None], axis=0)[0])


def _of_samples(
    value_RS: NDArray[Any],
    stop_RT: NDArray[np.unsignedinteger[Any]],
    rollout_DN: NDArray[np.intp],
) -> NDArray[Any]:
    return np.stack([_take(value_RS, stop_RT, row_D) for row_D in rollout_DN.T])


def _take(
    value_RS: NDArray[Any], stop_RT: NDArray[np.unsignedinteger[Any]], row_D: NDArray[np.intp]
) -> NDArray[Any]:
    """The values of some rows at their stops; flat indexing is several times as fast."""
    return np.asarray(value_RS.ravel().take(stop_RT[row_D] + value_RS.shape[1] * row_D[:, None]))
