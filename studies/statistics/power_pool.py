"""Replays the power study's units once under many policies, and sums over any of the units."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibration import ExitPolicy, Losses, Procedure, Replay, Risk, Traces, outcomes

BLOCK = 200
"""Number of policies replayed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Outcomes of units (U) under policies (T), summed over each unit's draws.

    Attributes:
        n_draws: draws of each unit.
        column: column of each policy.
        weight_UT: None if every weight is 1.
        full_right_U, full_tokens_U: at the full budget.
    """

    n_draws: int
    column: dict[ExitPolicy, int]
    loss_UT: NDArray[Any]
    weight_UT: NDArray[Any] | None
    answered_UT: NDArray[Any]
    right_UT: NDArray[Any]
    tokens_UT: NDArray[Any]
    full_right_U: NDArray[Any]
    full_tokens_U: NDArray[Any]

    @classmethod
    def of(
        cls,
        traces: Traces,
        unit_P: NDArray[np.intp],
        policies: Sequence[ExitPolicy],
        risk: Risk,
        procedure: Procedure,
    ) -> Self:
        """Replays each policy once; all units must have the same number of draws."""
        policies = tuple(dict.fromkeys(policies))
        starts = range(0, len(policies), BLOCK)
        parts = [
            cls._of_block(traces, unit_P, policies[start : start + BLOCK], risk, procedure)
            for start in starts
        ]

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts], axis=1)

        return cls(
            parts[0].n_draws,
            {policy: number for number, policy in enumerate(policies)},
            joined("loss_UT"),
            None if parts[0].weight_UT is None else joined("weight_UT"),
            joined("answered_UT"),
            joined("right_UT"),
            joined("tokens_UT"),
            parts[0].full_right_U,
            parts[0].full_tokens_U,
        )

    @classmethod
    def _of_block(
        cls,
        traces: Traces,
        unit_P: NDArray[np.intp],
        policies: Sequence[ExitPolicy],
        risk: Risk,
        procedure: Procedure,
    ) -> Self:
        found = outcomes(traces, policies, procedure)
        loss_DT, weight_DT = risk.loss(found)
        per_problem = len(found.full_tokens_D) // traces.n_problems
        # Draws are sorted by problem.
        order_D = np.argsort(np.repeat(unit_P, per_problem), kind="stable")
        draw_UK = order_D.reshape(int(unit_P.max()) + 1, -1)
        return cls(
            draw_UK.shape[1],
            {policy: number for number, policy in enumerate(policies)},
            _sum(loss_DT, draw_UK),
            None if weight_DT is None else _sum(weight_DT, draw_UK),
            _sum(found.answered_DT, draw_UK),
            _sum(found.correct_DT, draw_UK),
            _sum(found.tokens_DT, draw_UK),
            _sum(found.full_correct_D, draw_UK),
            _sum(found.full_tokens_D, draw_UK),
        )

    def replay(self, unit_U: NDArray[np.intp], policies: Sequence[ExitPolicy]) -> Replay:
        """The result of `replay` for some units, which may repeat."""
        columns_T = np.array([self.column[policy] for policy in policies])
        first, last = int(columns_T.min()), int(columns_T.max())
        chosen: Any = np.ix_(unit_U, columns_T)
        if np.array_equal(columns_T, np.arange(first, last + 1)):  # rows are copied much faster
            chosen = unit_U, slice(first, last + 1)
        loss_UT = self.loss_UT[chosen] / self.n_draws

        def mean(sum_U: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(sum_U.sum(axis=0, dtype=np.int64) / self.n_draws / len(unit_U))

        return Replay(
            losses=Losses.unweighted(loss_UT)
            if self.weight_UT is None
            else Losses(loss_UT, self.weight_UT[chosen] / self.n_draws),
            answered_T=mean(self.answered_UT[chosen]),
            right_T=mean(self.right_UT[chosen]),
            tokens_T=mean(self.tokens_UT[chosen]),
            full_tokens=float(mean(self.full_tokens_U[unit_U])),
            full_right=float(mean(self.full_right_U[unit_U])),
            n_problems=len(unit_U),
            n_draws=self.n_draws * len(unit_U),
        )


def _sum(values_D: NDArray[Any], draw_UK: NDArray[np.intp]) -> NDArray[Any]:
    """The sum over each unit's draws, stored as bytes if possible to save memory."""
    dtype = np.int32 if values_D.dtype.kind == "i" else np.uint8
    total_U: NDArray[Any] = values_D[draw_UK[:, 0]].astype(dtype)
    for draw_U in draw_UK.T[1:]:
        total_U += values_D[draw_U].astype(dtype)
    return total_U
