"""A policy on recorded rollouts, one question at a time, as in serving.

Exits are computed by `step`, checkpoint by checkpoint, and votes by `confidence_vote`, depth by
depth. It is slow and shares no code with the vectorised replay, which it verifies.
"""

from dataclasses import replace

import numpy as np

from calibration.policy.exit_rule import (
    FULL_BUDGET,
    INITIAL_STATE,
    ExitPolicy,
    ExitReason,
    answers_at_end,
    step,
)
from calibration.policy.vote_stop import vote_stop
from calibration.policy.voting import (
    NO_ANSWER,
    Vote,
    confidence_vote,
    is_answered,
    majority_vote,
)
from calibration.simulation.procedure import Draws, Procedure
from calibration.simulation.risks import Outcomes
from calibration.traces.traces import Traces


def walk(traces: Traces, draws: Draws, policy: ExitPolicy, procedure: Procedure) -> Outcomes:
    """The outcomes of draws under one policy: draw by draw, sample by sample."""
    under = [_Question(traces, rows.tolist(), policy, procedure) for rows in draws.rollout_DN]
    unread = replace(traces, confidence_tokens_RC=None)
    full = [_Question(unread, rows.tolist(), FULL_BUDGET, procedure) for rows in draws.rollout_DN]
    return Outcomes(
        answered_DT=np.array([[question.answered] for question in under]),
        correct_DT=np.array([[question.correct] for question in under]),
        tokens_DT=np.array([[question.tokens] for question in under]),
        confidence_DT=np.array([[question.confidence] for question in under]),
        full_correct_D=np.array([question.correct for question in full]),
        full_tokens_D=np.array([question.tokens for question in full]),
    )


class _Question:
    """One question, answered from recorded rollouts under one policy."""

    def __init__(
        self, traces: Traces, rows: list[int], policy: ExitPolicy, procedure: Procedure
    ) -> None:
        self._samples = [_Sample(traces, row, policy) for row in rows]
        self._procedure = procedure
        counted = vote_stop([one.thinking for one in self._samples], self._vote, policy.lambda_stop)
        ended = [one for number, one in enumerate(self._samples) if number not in counted]
        vote = self._vote(counted)
        self.answered = bool(
            is_answered(len(rows), vote.winner is not None, vote.share, policy.lambda_vote)
        )
        self.confidence = self._samples[0].confidence if len(rows) == 1 else vote.share
        winners = [
            self._samples[number].right
            for number in counted
            if self._samples[number].answer_class == vote.winner
        ]
        self.correct = self.answered and winners[0]
        depth = max(self._samples[number].thinking for number in counted)
        reading = max(one.answering for one in self._samples if one.thinking == depth)
        self.tokens = sum(self._samples[number].tokens for number in counted)
        self.tokens += sum(one.tokens_if_ended(depth, reading) for one in ended)

    def _vote(self, counted: list[int]) -> Vote:
        classes = [self._samples[number].answer_class for number in counted]
        if self._procedure.vote == "majority":
            return majority_vote(classes)
        return confidence_vote(classes, [self._samples[number].confidence for number in counted])


class _Sample:
    """One rollout under one policy: its tokens, its answer's class and verdict, its confidence."""

    def __init__(self, traces: Traces, row: int, policy: ExitPolicy) -> None:
        self._traces, self._row = traces, row
        end, state, exit_ = int(traces.final_R[row]), INITIAL_STATE, None
        column = end
        for checkpoint in range(end):
            tokens = int(traces.tokens_RC[row, checkpoint])
            confidence = float(traces.confidence_RC[row, checkpoint])
            state, exit_ = step(policy, state, tokens, confidence)
            if exit_ is not None:
                column = checkpoint
                break
        self.thinking = int(traces.tokens_RC[row, column])
        self.confidence = float(traces.confidence_RC[row, column])
        self.right = bool(traces.correct_RC[row, column])
        if exit_ is None:
            answers = answers_at_end(policy, state, self.confidence)
        else:
            answers = exit_ is ExitReason.HIGH or policy.answer_on_low
        self.answer_class = int(traces.answer_class_RC[row, column]) if answers else NO_ANSWER
        makes_answer = answers or (exit_ is None and traces.natural_R[row])
        self.answering = int(traces.answer_tokens_RC[row, column]) if makes_answer else 0
        self.tokens = self.thinking + self.answering + self._cost(column + 1)

    def tokens_if_ended(self, depth: int, reading: int) -> int:
        """Its tokens if the vote stops at a `depth` while it thinks.

        It goes on while the answer that ends the vote is read, which takes `reading` tokens.
        """
        traces, row = self._traces, self._row
        checkpoints_C = traces.tokens_RC[row, : traces.final_R[row]]
        tokens = min(self.thinking + self.answering, depth + reading)
        return tokens + self._cost(int((checkpoints_C <= depth).sum()))

    def _cost(self, readings: int) -> int:
        costs_RC = self._traces.confidence_tokens_RC
        return 0 if costs_RC is None else int(costs_RC[self._row, :readings].sum())
