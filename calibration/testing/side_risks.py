"""The other risks of tested policies, and which policies keep the limits on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.policy.exit_rule import ExitPolicy
from calibration.simulation.groups import Groups
from calibration.simulation.losses import Losses
from calibration.simulation.procedure import Procedure
from calibration.simulation.replay import replay
from calibration.simulation.risks import SIDE_RISKS
from calibration.testing.fwer import Promise
from calibration.testing.joint import Joint, allowed, bound_of, next_delta, next_most
from calibration.testing.p_values import PValue
from calibration.traces.traces import Traces


@dataclass(frozen=True, slots=True, eq=False)
class SideRisks:
    """What `joint` says about each tested policy (T).

    Attributes:
        joint: the statements, without figures.
        losses: of each bounded risk.
        kind: the test of all of them.
        seed: of the order in which a betting test visits the units.
        allowed_BT: which policies keep the limit of each bound (B).
    """

    joint: Joint
    losses: tuple[Losses, ...]
    kind: PValue
    seed: int
    allowed_BT: NDArray[np.bool_]

    @classmethod
    def measured(
        cls,
        joint: Joint,
        traces: Traces,
        policies: Sequence[ExitPolicy],
        procedure: Procedure,
        groups: Groups | None,
        seed: int,
    ) -> Self:
        """The side risks of these policies, all of which were fixed before looking at labels."""
        losses, kind = [], PValue.BETTING
        for bound in joint.bounds:
            found = replay(traces, policies, SIDE_RISKS[bound.risk], procedure, groups)
            if groups is None and found.n_draws == found.losses.n_units:
                kind = PValue.BINOMIAL  # a unit is one draw of a loss of 0 or 1
            losses.append(found.losses)
        return cls._tested(joint, losses, len(policies), kind, seed)

    @classmethod
    def _tested(
        cls, joint: Joint, losses: Sequence[Losses], n_policies: int, kind: PValue, seed: int
    ) -> Self:
        allowed_BT = np.ones((len(losses), n_policies), dtype=np.bool_)
        for row, (bound, of) in enumerate(zip(joint.bounds, losses, strict=True)):
            allowed_BT[row] = allowed(bound, of, kind, joint.statement_delta, seed)
        return cls(joint, tuple(losses), kind, seed, allowed_BT)

    def take(self, unit_U: NDArray[np.intp]) -> Self:
        """The same policies on these units alone, which may repeat."""
        losses, n_policies = [one.take(unit_U) for one in self.losses], self.allowed_BT.shape[1]
        return self._tested(self.joint, losses, n_policies, self.kind, self.seed)

    @property
    def allowed_T(self) -> NDArray[np.bool_]:
        """Which policies keep all limits."""
        return np.asarray(self.allowed_BT.all(axis=0))

    def at(self, served: Sequence[int | None], alphas: Sequence[float], promise: Promise) -> Joint:
        """The statements with their figures for the policy served at each level."""
        bounds = [
            [None if policy is None else self._bound(number, policy) for policy in served]
            for number in range(len(self.losses))
        ]
        coming, delta = self.joint.next, next_delta(self.joint, promise, len(alphas))
        most = [
            None if policy is None or coming is None else next_most(coming.questions, alpha, delta)
            for policy, alpha in zip(served, alphas, strict=True)
        ]
        return self.joint.at(bounds, most)

    def _bound(self, number: int, policy: int) -> float:
        losses = self.losses[number]
        one = losses.select(np.array([policy]))
        delta = self.joint.statement_delta
        return bound_of(
            self.joint.bounds[number], one, losses.n_policies, self.kind, delta, self.seed
        )

    def why_none(self, certified_T: NDArray[np.bool_]) -> tuple[bool, str]:
        """Why no certified policy keeps all limits, and whether more problems may change that."""
        met_T = certified_T.copy()
        for bound, of in zip(self.joint.bounds, self.losses, strict=True):
            if bound.at_most is not None:
                met_T &= of.risk_T < bound.at_most
        limits = " and ".join(
            f"{bound.risk} at most {bound.at_most:g} (the least measured is "
            f"{of.risk_T[certified_T].min():.3g})"
            for bound, of in zip(self.joint.bounds, self.losses, strict=True)
            if bound.at_most is not None
        )
        return bool(met_T.any()), (
            f"{int(certified_T.sum())} policies are certified, but none of them provably keeps "
            f"{limits}"
        )
