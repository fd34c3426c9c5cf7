"""Which problems need a label: those whose loss depends on it under a policy of the test.

Where no tested policy answers, nothing can be answered wrong, and where every tested policy gives
the answer of the full budget, nothing can be lost by stopping early. This is known from answers
alone. So a test costs fewer labels, and stays the same test: whatever stands for the label of the
other problems, every loss and every p-value is what the true labels give.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibration.policy.exit_rule import ExitPolicy
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import Risk
from calibration.traces.traces import Traces


def labels_needed(
    traces: Traces, policies: Sequence[ExitPolicy], risk: Risk, procedure: Procedure
) -> NDArray[np.bool_]:
    """Which problems (P) have a loss that depends on which of their answers is right.

    It reads which answers are equal, and no label. The policies must be those of the test. Figures
    other than losses, such as the share of right answers, need every label.

    Args:
        traces: recorded problems, labelled or not.
        policies: all policies of the test.
        risk: what is tested.
        procedure: how one question is answered.

    Raises:
        CalibrationError: a problem has too few rollouts, or a policy does not fit the risk.
    """
    alone = replace(traces, groups=(None,) * traces.n_problems)
    answers_P = [
        np.setdiff1d(traces.answer_class_RC[traces.problem_R == p], [NO_ANSWER])
        for p in range(traces.n_problems)
    ]

    def losses_if(correct_RC: NDArray[np.bool_]) -> NDArray[np.float64]:
        labelled = replace(alone, correct_RC=correct_RC)
        return replay(labelled, policies, risk, procedure).losses.loss_UT[labelled.unit_P]

    first_PT = losses_if(np.zeros_like(traces.correct_RC))
    needed_P = np.zeros(traces.n_problems, dtype=np.bool_)
    for number in range(max(map(len, answers_P))):
        right_P = np.array([found[min(number, len(found) - 1)] if len(found) else NO_ANSWER
                            for found in answers_P])  # fmt: skip
        right_R1 = right_P[traces.problem_R, None]
        loss_PT = losses_if((traces.answer_class_RC == right_R1) & (right_R1 != NO_ANSWER))
        needed_P |= (loss_PT != first_PT).any(axis=1)
    return needed_P
