"""Which problems need a label: those whose loss depends on it under a policy of the test.

Where no tested policy answers, nothing can be answered wrong, and where every tested policy gives
the answer of the full budget, nothing can be lost by stopping early. This is known from answers
alone. So a test costs fewer labels, and stays the same test: whatever stands for the label of the
other problems, every loss and every p-value is what the true labels give.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibration.policy.exit_rule import ExitPolicy
from calibration.policy.voting import NO_ANSWER
from calibration.simulation.procedure import Draws, Procedure, simulate
from calibration.simulation.risks import Loss, Outcomes, Risk
from calibration.simulation.simulator import Simulator
from calibration.traces.traces import Traces

BLOCK = 1 << 20
"""Rollouts x (policies + readings) simulated at a time; the result does not depend on it."""


def labels_needed(
    traces: Traces, policies: Sequence[ExitPolicy], risk: Risk, procedure: Procedure
) -> NDArray[np.bool_]:
    """Which problems (P) have a draw whose loss depends on which of their answers is right.

    It reads which answers are equal, and no label. The policies must be those of the test. Figures
    other than losses, such as the share of right answers, need every label. The cost is that of one
    replay, however many answers a problem has.

    Args:
        traces: recorded problems, labelled or not.
        policies: all policies of the test.
        risk: what is tested.
        procedure: how one question is answered.

    Raises:
        CalibrationError: a problem has too few rollouts, or a policy does not fit the risk.
    """
    risk.check_policies(policies)
    draws = simulate(traces, procedure)
    simulator = Simulator(traces, policies, procedure.vote)
    needed_P = np.zeros(traces.n_problems, dtype=np.bool_)
    for rows, drawn in _blocks(traces, draws, len(policies)):
        stopped = simulator.stopped(np.arange(rows.start, rows.stop))
        rollout_DN = draws.rollout_DN[drawn] - rows.start
        given_DT, full_D = stopped.answer_classes(rollout_DN)
        needed_D = _needed(risk, stopped.outcomes(rollout_DN), given_DT, full_D)
        needed_P[draws.problem_D[drawn][needed_D]] = True
    return needed_P


def _needed(
    risk: Risk, outcomes: Outcomes, given_DT: NDArray[np.int64], full_D: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which draws (D) lose something else if the answer given, or the full budget's, is right.

    A loss sees no more of a label than whether these two are right. They are right together where
    they are equal, and one at a time elsewhere.
    """

    def loss(*, given: bool, full: bool) -> Loss:
        found, _ = risk.loss(
            replace(
                outcomes,
                correct_DT=given & (given_DT != NO_ANSWER),
                full_correct_D=full & (full_D != NO_ANSWER),
            )
        )
        return found

    neither_DT = loss(given=False, full=False)
    one_DT = loss(given=True, full=False) != neither_DT
    one_DT |= loss(given=False, full=True) != neither_DT
    both_DT = loss(given=True, full=True) != neither_DT
    return np.asarray(np.where(given_DT == full_D[:, None], both_DT, one_DT).any(axis=1))


def _blocks(traces: Traces, draws: Draws, n_policies: int) -> Iterator[tuple[slice, slice]]:
    """The rows and the draws of a few problems at a time; both are sorted by problem."""
    row_P = np.append(0, np.cumsum(traces.rollouts_P))
    draw_P = np.searchsorted(draws.problem_D, np.arange(traces.n_problems + 1))
    width = n_policies + traces.tokens_RC.shape[1]
    per_problem = width * int(max(traces.rollouts_P.max(), np.diff(draw_P).max()))
    size = max(1, BLOCK // per_problem)
    for first in range(0, traces.n_problems, size):
        end = min(first + size, traces.n_problems)
        yield slice(row_P[first], row_P[end]), slice(draw_P[first], draw_P[end])
