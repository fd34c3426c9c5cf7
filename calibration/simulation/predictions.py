"""Losses that are predicted from recordings alone, without any label.

The prediction of a loss is its mean if the confidence at the exit were true: with that probability
the problem's most confident answer is right, and otherwise none of its answers is. Which answer
that is depends on all readings of the problem. Tests that use predictions are valid whatever they
are worth (`calibration.testing.anytime`); good ones save labels.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibration.policy.exit_rule import ExitPolicy
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.groups import Groups
from calibration.simulation.losses import Losses
from calibration.simulation.procedure import ONE_SAMPLE, Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import Loss, Outcomes, Risk
from calibration.traces.traces import Traces


def predicted_losses(
    traces: Traces,
    policies: Sequence[ExitPolicy],
    risk: Risk,
    procedure: Procedure = ONE_SAMPLE,
    groups: Groups | None = None,
) -> Losses:
    """The predicted losses of units under policies, and their weights; no label is read.

    Args:
        traces: recorded problems, labelled or not.
        policies: see `replay`.
        risk: what is predicted.
        procedure: see `replay`.
        groups: see `replay`.

    Raises:
        CalibrationError: see `replay`.
    """
    return replay(self_labelled(traces), policies, expected(risk), procedure, groups).losses


def self_labelled(traces: Traces) -> Traces:
    """The traces as if each problem's most confident answer were right.

    That is the answer with the largest sum of confidences, over all readings of all rollouts.
    """
    rows_R1 = traces.problem_R[:, None]
    given_RC = traces.answer_class_RC != NO_ANSWER
    given_RC &= np.arange(given_RC.shape[1]) <= traces.final_R[:, None]
    problem_N = np.broadcast_to(rows_R1, given_RC.shape)[given_RC]
    class_N = traces.answer_class_RC[given_RC]
    known_C, place_N = np.unique(class_N, return_inverse=True)  # classes may be any numbers
    width = max(len(known_C), 1)
    answer_K, place_N = np.unique(problem_N * width + place_N, return_inverse=True)
    total_K = np.bincount(place_N, traces.confidence_RC[given_RC], len(answer_K))
    # The best answer of each problem comes last; of equal ones, the first class.
    answer_K = answer_K[np.lexsort((-answer_K, total_K))]
    best_P = np.full(traces.n_problems, NO_ANSWER)
    best_P[answer_K // width] = known_C[answer_K % width]
    return replace(traces, correct_RC=given_RC & (traces.answer_class_RC == best_P[rows_R1]))


def expected(risk: Risk) -> Risk:
    """The risk whose loss is the predicted one, on traces from `self_labelled`."""

    def mean(outcomes: Outcomes) -> tuple[Loss, Loss | None]:
        none_right = replace(
            outcomes,
            correct_DT=np.zeros_like(outcomes.correct_DT),
            full_correct_D=np.zeros_like(outcomes.full_correct_D),
        )
        likely, weight = risk.loss(outcomes)
        unlikely, _ = risk.loss(none_right)
        sure_DT = outcomes.confidence_DT
        return sure_DT * likely + (1 - sure_DT) * unlikely, weight

    return replace(risk, loss=mean, binary=False)
