"""Least favourable losses: the risk of every policy is slightly above alpha.

Then every certified policy is an error. Policies are either independent, the worst case for a
choice among many, or identical, the case in which Bonferroni is most conservative.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calibration.simulation.losses import Losses
from calibration.testing.families import Correction, Family
from calibration.testing.p_values import PValue
from tests.statistical.policies import Grid

GRID = Grid.labels(5)
ABOVE = 1 + 1e-9
ANSWERED = 0.7
ROLLOUTS = 4


class Shape(StrEnum):
    """The distribution of a loss."""

    BINARY = "0 or 1"
    RATIO = "ratio"
    """0 or 1 on answered questions; an independent coin decides which are answered."""
    AVERAGED = "averaged"
    """The mean over a problem's rollouts, which are correlated."""


@dataclass(frozen=True)
class Nulls:
    """Losses of policies (T) that all have the risk `alpha` · ABOVE.

    Attributes:
        nested: every policy has the same losses; else they are independent.
        clustering: for averaged losses, correlation between rollouts of a problem.
    """

    alpha: float
    shape: Shape
    nested: bool
    grid: Grid = GRID
    clustering: float = 0.6

    @property
    def may_abstain(self) -> bool:
        return self.shape is Shape.RATIO

    @property
    def n_policies(self) -> int:
        return len(self.grid.policies)

    @property
    def risk_T(self) -> NDArray[np.float64]:
        return np.full(self.n_policies, self.alpha * ABOVE)

    @property
    def tokens_T(self) -> NDArray[np.float64]:
        """Riskier policies cost fewer tokens."""
        return np.tile(np.linspace(100.0, 50.0, len(self.grid.chains[0])), len(self.grid.chains))

    def sample(self, rng: np.random.Generator, n: int) -> Losses:
        columns = 1 if self.nested else self.n_policies
        risk = self.alpha * ABOVE
        if self.shape is Shape.AVERAGED:
            loss_UT = self._beta_binomial(rng, (n, columns), risk)
        else:
            loss_UT = (rng.random((n, columns)) < risk).astype(np.float64)
        copies = self.n_policies // columns
        if self.shape is not Shape.RATIO:
            return Losses.unweighted(np.repeat(loss_UT, copies, axis=1))
        weight_UT = (rng.random((n, columns)) < ANSWERED).astype(np.float64)
        return Losses(
            np.repeat(loss_UT * weight_UT, copies, axis=1), np.repeat(weight_UT, copies, axis=1)
        )

    def _beta_binomial(
        self, rng: np.random.Generator, shape: tuple[int, int], risk: float
    ) -> NDArray[np.float64]:
        size = 1 / self.clustering - 1
        chance_UT = rng.beta(risk * size, (1 - risk) * size, shape)
        return rng.binomial(ROLLOUTS, chance_UT) / ROLLOUTS

    def rejects(self, kind: PValue, n: int, delta: float, family: Family) -> float:
        """The probability that anything is certified at one level, in closed form.

        Something is certified just if some p-value is at most the share of delta its policy starts
        with. Counts decide, so only for the binomial and Hoeffding-Bentkus tests of 0 or 1.
        """
        if family.correction is Correction.GRAPH:
            share_T = np.array(family.weights_LT)[0]
        else:
            share_T = np.full(len(family.policies), 1 / len(family.policies))
        size_T = np.array([self._size(kind, n, delta * share) for share in share_T])
        return float(size_T.max() if self.nested else 1 - np.prod(1 - size_T))

    def _size(self, kind: PValue, n: int, threshold: float) -> float:
        """P(p <= threshold) for one policy."""
        if self.shape is Shape.BINARY:
            return self._size_given(kind, n, threshold)
        sizes = [self._size_given(kind, m, threshold) for m in range(n + 1)]
        return float(stats.binom.pmf(np.arange(n + 1), n, ANSWERED) @ sizes)

    def _size_given(self, kind: PValue, n: int, threshold: float) -> float:
        wrong = np.arange(n + 1)
        p_values = stats.binom.cdf(wrong, n, self.alpha)
        if kind is PValue.HOEFFDING_BENTKUS:
            mean = np.minimum(wrong / n, self.alpha)
            divergence = stats.entropy(
                np.stack([mean, 1 - mean]), np.array([[self.alpha], [1 - self.alpha]])
            )
            p_values = np.minimum(np.exp(-n * divergence), np.e * p_values)
        chance = stats.binom.pmf(wrong, n, self.alpha * ABOVE)
        return float(chance[p_values <= threshold].sum())
