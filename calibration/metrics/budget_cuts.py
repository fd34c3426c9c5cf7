"""Recorded rollouts at their end, or cut at a smaller budget (RLCM §4.3).

Both kinds of readings are graded: the answer forced at every checkpoint, and the answer at the end.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.metrics.scores import ScoredRollouts
from calibration.traces.traces import Traces


def at_end(traces: Traces) -> ScoredRollouts:
    """Every rollout at its final reading: at its natural end or at the recorded budget."""
    return _scored(traces, traces.final_R)


def cut_at(traces: Traces, tokens: int) -> tuple[ScoredRollouts, NDArray[np.bool_]]:
    """Every rollout cut after `tokens` reasoning tokens.

    A rollout that ended by itself at or before `tokens` counts with its final reading. Every other
    rollout counts with its reading at exactly `tokens` and the answer forced there. Nothing is
    interpolated.

    The result describes a model that has this budget from the start and does not know it. It says
    nothing about models that are told their budget.

    Returns:
        The rollouts, and which of them ended by themselves.

    Raises:
        CalibrationError: a rollout has no reading at `tokens`, or its budget ended it before.
    """
    tokens_R = traces.tokens_RC[np.arange(traces.n_rollouts), traces.final_R]
    ended_R = traces.natural_R & (tokens_R <= tokens)
    recorded_RC = np.arange(traces.tokens_RC.shape[1]) <= traces.final_R[:, None]
    read_RC = recorded_RC & (traces.tokens_RC == tokens)
    unread_R = ~ended_R & ~read_RC.any(axis=1)
    if unread_R.any():
        r = int(np.flatnonzero(unread_R)[0])
        read = traces.tokens_RC[r, : traces.final_R[r] + 1]
        raise CalibrationError(
            f"problem {traces.problem_ids[traces.problem_R[r]]!r}, rollout {traces.rollout_R[r]}: "
            f"no reading at {tokens} tokens, only at {_listed(read)}: cut at a checkpoint that "
            "all rollouts have"
        )
    # If a checkpoint and a final reading have the same tokens, take the final one.
    last_read_R = read_RC.shape[1] - 1 - np.argmax(read_RC[:, ::-1], axis=1)
    return _scored(traces, np.where(ended_R, traces.final_R, last_read_R)), ended_R


def _scored(traces: Traces, column_R: NDArray[np.intp]) -> ScoredRollouts:
    def at(values_RC: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(values_RC[np.arange(traces.n_rollouts), column_R])

    return ScoredRollouts(
        problem_R=traces.problem_R,
        correct_R=at(traces.correct_RC),
        confidence_R=at(traces.confidence_RC),
        answer_class_R=at(traces.answer_class_RC),
        unit_P=traces.unit_P,
    )


def _listed(tokens: NDArray[np.int64]) -> str:
    shown = [str(each) for each in np.unique(tokens).tolist()]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-2:]])
