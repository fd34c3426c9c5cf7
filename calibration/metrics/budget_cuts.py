"""Recorded rollouts at their end, and as they would have answered at a smaller budget (RLCM §4.3).

Both readings of a rollout are graded: the answer forced at every checkpoint, and the one at its
end.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.metrics.scores import ScoredRollouts
from calibration.traces.traces import Traces


def at_end(traces: Traces) -> ScoredRollouts:
    """Every rollout by its final reading, at its natural end or at the recorded budget."""
    return _scored(traces, traces.final_R)


def cut_at(traces: Traces, tokens: int) -> tuple[ScoredRollouts, NDArray[np.bool_]]:
    """Every rollout cut after `tokens` reasoning tokens.

    A rollout that had ended by itself, at `tokens` or before, counts as it ended; every other one
    by the reading at just `tokens`, with the answer forced there. Nothing is interpolated.

    It is what a model would have done that was given so much from the start, and thought no
    differently for it: of models that are told their budget it says nothing.

    Returns:
        The rollouts, and which of them had ended by themselves.

    Raises:
        CalibrationError: a rollout was not read at `tokens`, or was itself cut before.
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
            f"not read at {tokens} tokens but at {_listed(read)}: cut at a checkpoint that all "
            "rollouts have"
        )
    # Of a checkpoint and a final reading at the same tokens, the final one.
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
