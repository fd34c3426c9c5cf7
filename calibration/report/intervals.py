"""95% intervals of the shares and tokens of a report, with units as the independent draws.

Those of shares are `calibration.metrics.share_intervals`. Those of tokens are approximate: they see
only how units differ, and too few units may not show it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration.metrics.estimates import Estimate
from calibration.metrics.share_intervals import ERROR, shares_over_problems
from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.groups import Groups
from calibration.simulation.procedure import Procedure, simulate
from calibration.simulation.replay import outcomes
from calibration.traces.traces import Traces

Interval = tuple[float, float]
_ROUNDING = 1e-12
"""Relative to a ratio, an error that is not more than rounding."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of one policy's figures; see `calibration.Evaluation` for the figures.

    `full_right` is that of the full budget. Those of tokens are None for a single unit, and where
    units do not differ.
    """

    answered: Estimate
    right: Estimate
    full_right: Estimate
    tokens: Interval | None
    tokens_share: Interval | None


def intervals(
    policies: Sequence[ExitPolicy], traces: Traces, procedure: Procedure, groups: Groups | None
) -> list[Intervals]:
    """The intervals of each policy's figures, as `calibration.evaluate` averages them.

    Raises:
        CalibrationError: a problem has too few rollouts.
    """
    by_size = (groups or Groups()).by_size
    problem_D = simulate(traces, procedure).problem_D
    draws_P = np.bincount(problem_D, minlength=traces.n_problems)
    problems_U = np.bincount(traces.unit_P)
    size_U = problems_U.astype(float) if by_size else np.ones(len(problems_U))

    def by_unit(value_D: NDArray[np.generic]) -> NDArray[np.float64]:
        """Mean over a problem's draws; then the sum over a unit's problems, or their mean."""
        mean_P = np.bincount(problem_D, value_D.astype(float)) / draws_P
        total_U = np.bincount(traces.unit_P, mean_P)
        return np.asarray(total_U if by_size else total_U / problems_U)

    found = []
    for policy in policies:
        of = outcomes(traces, [policy], procedure)
        tokens_U, full_U = by_unit(of.tokens_DT[:, 0]), by_unit(of.full_tokens_D)
        shares_DC = np.column_stack([of.answered_DT[:, 0], of.correct_DT[:, 0], of.full_correct_D])
        answered, right, full_right = shares_over_problems(
            np.column_stack([by_unit(share_D) for share_D in shares_DC.T]),
            size_U,
            rollouts=int((traces.rollouts_P // procedure.samples).sum()),
        )
        found.append(
            Intervals(
                answered=answered,
                right=right,
                full_right=full_right,
                tokens=ratio_interval(tokens_U, size_U),
                tokens_share=ratio_interval(tokens_U, full_U),
            )
        )
    return found


def ratio_interval(part_U: NDArray[np.float64], whole_U: NDArray[np.float64]) -> Interval | None:
    """Of a ratio of totals: Student's interval by the delta method.

    None for a single unit, and where all units have the same ratio, up to rounding: then the
    interval would have no width, and units that agree say nothing of others.
    """
    n_units = len(part_U)
    if n_units < 2:
        return None
    ratio = float(part_U.sum() / whole_U.sum())
    residual_U = part_U - ratio * whole_U
    error = float(residual_U.std(ddof=1) / np.sqrt(n_units) / whole_U.mean())
    if error <= _ROUNDING * ratio:
        return None
    half = float(special.stdtrit(n_units - 1, 1 - ERROR / 2)) * error
    return max(0.0, ratio - half), ratio + half
