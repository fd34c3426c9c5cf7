"""What policies would have done with recorded reasoning."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.exit_rule import FULL_BUDGET, ExitPolicy, ExitReason, Exits, find_exits
from calibration.traces import Traces
from calibration.voting import NO_ANSWER


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Outcomes of problems (P) under policies (T), each averaged over the problem's rollouts.

    Attributes:
        answered_PT: share of rollouts answered: the rule answers, and an answer can be read.
        wrong_PT: share answered and wrong.
        tokens_PT: reasoning tokens, and those of the answer where one is forced or where the model
            wrote its own. Nothing is forced where the rule abstains.
    """

    answered_PT: NDArray[np.float64]
    wrong_PT: NDArray[np.float64]
    tokens_PT: NDArray[np.float64]

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return len(self.answered_PT)

    @property
    def right_PT(self) -> NDArray[np.float64]:
        """Share answered and right."""
        return self.answered_PT - self.wrong_PT


def replay(traces: Traces, policies: Sequence[ExitPolicy]) -> Replay:
    """Replay recorded rollouts under each policy."""
    return _outcomes(traces, _exits(traces, policies))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One policy on recorded problems, in plain numbers.

    On problems used nowhere before these are honest estimates, without error bars; on those that
    chose the policy they are optimistic. Shares and means weigh each problem the same, however many
    rollouts it has.

    Attributes:
        n_problems: problems.
        n_rollouts: rollouts of these problems.
        n_answered: rollouts answered.
        n_wrong: rollouts answered wrong.
        risk: of the answered, the share answered wrong; None if none was answered.
        share_answered: share answered.
        share_right: share answered and right.
        mean_tokens: reasoning and answer tokens per rollout.
        full_budget_tokens: the same without early exits.
        exits: rollouts by the reason they stopped.
    """

    n_problems: int
    n_rollouts: int
    n_answered: int
    n_wrong: int
    risk: float | None
    share_answered: float
    share_right: float
    mean_tokens: float
    full_budget_tokens: float
    exits: dict[ExitReason, int]


def evaluate(policy: ExitPolicy, traces: Traces) -> Evaluation:
    """What `policy` does on recorded problems: realised risk, share answered, tokens."""
    exits = _exits(traces, [policy, FULL_BUDGET])
    answered_RT, wrong_RT = _answers(traces, exits)
    outcomes = _outcomes(traces, exits)
    share_answered, share_wrong = outcomes.answered_PT[:, 0].mean(), outcomes.wrong_PT[:, 0].mean()
    ended_R = exits.ended_RT[:, 0]
    return Evaluation(
        n_problems=traces.n_problems,
        n_rollouts=traces.n_rollouts,
        n_answered=int(answered_RT[:, 0].sum()),
        n_wrong=int(wrong_RT[:, 0].sum()),
        risk=float(share_wrong / share_answered) if share_answered > 0 else None,
        share_answered=float(share_answered),
        share_right=float(share_answered - share_wrong),
        mean_tokens=float(outcomes.tokens_PT[:, 0].mean()),
        full_budget_tokens=float(outcomes.tokens_PT[:, 1].mean()),
        exits={
            ExitReason.HIGH: int(exits.high_RT[:, 0].sum()),
            ExitReason.LOW: int(exits.low_RT[:, 0].sum()),
            ExitReason.NATURAL: int((ended_R & traces.natural_R).sum()),
            ExitReason.BUDGET: int((ended_R & ~traces.natural_R).sum()),
        },
    )


def _exits(traces: Traces, policies: Sequence[ExitPolicy]) -> Exits:
    return find_exits(policies, traces.tokens_RC, traces.confidence_RC, traces.final_R)


def _answers(traces: Traces, exits: Exits) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rollouts are answered, and which of those wrong, per policy."""
    rows_R1 = np.arange(traces.n_rollouts)[:, None]
    has_answer_RT = traces.answer_class_RC[rows_R1, exits.stop_RT] != NO_ANSWER
    answered_RT = exits.answered_RT & has_answer_RT
    return answered_RT, answered_RT & ~traces.correct_RC[rows_R1, exits.stop_RT]


def _outcomes(traces: Traces, exits: Exits) -> Replay:
    rows_R1 = np.arange(traces.n_rollouts)[:, None]
    answered_RT, wrong_RT = _answers(traces, exits)
    wrote_own_RT = traces.natural_R[:, None] & exits.ended_RT
    has_cost_RT = exits.answered_RT | wrote_own_RT
    answer_tokens_RT = np.where(has_cost_RT, traces.answer_tokens_RC[rows_R1, exits.stop_RT], 0)
    return Replay(
        answered_PT=_mean_by_problem(traces, answered_RT),
        wrong_PT=_mean_by_problem(traces, wrong_RT),
        tokens_PT=_mean_by_problem(
            traces, traces.tokens_RC[rows_R1, exits.stop_RT] + answer_tokens_RT
        ),
    )


def _mean_by_problem(
    traces: Traces, values_RT: NDArray[np.bool_] | NDArray[np.int64]
) -> NDArray[np.float64]:
    # Rollouts are sorted by problem, so each problem is one run of rows.
    first_P = np.flatnonzero(np.diff(traces.problem_R, prepend=-1))
    sum_PT = np.add.reduceat(values_RT.astype(np.float64), first_P, axis=0)
    return np.asarray(sum_PT / traces.rollouts_P[:, None], dtype=np.float64)
