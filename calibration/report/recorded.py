"""Chooses the recorded questions that travel with a certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.certificate.certificate import Certificate
from calibration.policy.exit_rule import ExitPolicy
from calibration.policy.exit_search import find_exits
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.replay import outcomes
from calibration.simulation.risks import SELECTIVE
from calibration.traces.recorded import RecordedQuestion, RecordedSeries
from calibration.traces.traces import Traces

QUESTIONS = 100
"""Size of the sample: a count in it is a percentage."""
TRIES = 40_000
"""Random samples among which the closest is taken."""
WRONG_WEIGHT = 3.0
"""How much more a difference in wrong answers counts: they are few, and what is looked at."""
CONFIDENCE_DIGITS = 6


def choose_recorded(
    certificate: Certificate,
    traces: Traces,
    *,
    on_test: bool,
    questions: Mapping[str, str] | None = None,
) -> RecordedSeries | None:
    """A sample of the series, one rollout from each of `QUESTIONS` problems.

    Of many random samples, the one whose figures are closest to the whole series': at every
    certified level the shares of wrong and of unanswered questions, and the tokens as a share of
    the full budget's. A hundred questions alone would scatter by several percentage points. So the
    sample shows what the series measured, and not how much a hundred questions scatter.

    Args:
        certificate: whose levels are shown.
        traces: the series.
        on_test: whether the fit did not use it.
        questions: text of each problem, by id; problems may be missing.

    Returns:
        None if the risk is not `selective`, if a question has several samples, if no level is
        certified, or if there are fewer than `QUESTIONS` problems.
    """
    policies = [one.policy for one in certificate.certified_levels]
    wanted = certificate.risk == SELECTIVE.name and certificate.procedure.samples == 1
    if not wanted or not policies or traces.n_problems < QUESTIONS:
        return None
    chosen_R = _closest(_figures(policies, traces), traces)
    texts = questions or {}
    return RecordedSeries(
        on_test=on_test,
        n_problems=traces.n_problems,
        n_rollouts=traces.n_rollouts,
        questions=tuple(_question(traces, int(row), texts) for row in chosen_R),
    )


def _figures(policies: Sequence[ExitPolicy], traces: Traces) -> NDArray[np.float64]:
    """Of each rollout (R), for each policy: wrong, answered, and its share of the mean tokens."""
    found = outcomes(traces, policies)
    wrong_RT = found.answered_DT & ~found.correct_DT
    stops = find_exits(policies, traces.tokens_RC, traces.confidence_RC, traces.final_R)
    spent_RC = traces.tokens_RC + traces.answer_tokens_RC
    whole = np.take_along_axis(spent_RC, traces.final_R[:, None], axis=1).mean()
    spent_RT = np.take_along_axis(spent_RC, stops.stop_RT, axis=1) / whole
    return np.hstack([WRONG_WEIGHT * wrong_RT, found.answered_DT, spent_RT]).astype(np.float64)


def _closest(figures_RF: NDArray[np.float64], traces: Traces) -> NDArray[np.intp]:
    """Rows of the sample. In the figures of the series, each problem counts the same."""
    weight_R = 1 / traces.rollouts_P[traces.problem_R] / traces.n_problems
    whole_F = weight_R @ figures_RF
    first_P = np.searchsorted(traces.problem_R, np.arange(traces.n_problems))
    rng = np.random.default_rng(traces.seed)

    def sample() -> NDArray[np.intp]:
        problem_Q = np.sort(rng.choice(traces.n_problems, QUESTIONS, replace=False))
        return first_P[problem_Q] + rng.integers(traces.rollouts_P[problem_Q])

    def off(row_Q: NDArray[np.intp]) -> float:
        return float(np.abs(figures_RF[row_Q].mean(axis=0) - whole_F).max())

    return min((sample() for _ in range(TRIES)), key=off)


def _question(traces: Traces, row: int, texts: Mapping[str, str]) -> RecordedQuestion:
    end = int(traces.final_R[row]) + 1
    readings = zip(traces.correct_RC[row, :end], traces.answer_class_RC[row, :end], strict=True)
    problem = traces.problem_ids[traces.problem_R[row]]
    confidence = traces.confidence_RC[row, :end].tolist()
    return RecordedQuestion(
        id=problem,
        question=texts.get(problem),
        tokens=tuple(traces.tokens_RC[row, :end].tolist()),
        confidence=tuple(float(f"{one:.{CONFIDENCE_DIGITS}g}") for one in confidence),
        answer_tokens=tuple(traces.answer_tokens_RC[row, :end].tolist()),
        right="".join("-" if given == NO_ANSWER else "01"[int(right)] for right, given in readings),
    )
