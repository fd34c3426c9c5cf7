"""The input of every test of a risk: the losses of exchangeable units under policies."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError

_BLOCK = 1 << 20
"""Elements checked at a time, so that no temporary array is as large as the losses."""


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Losses of exchangeable units (U) under policies (T); a policy's risk is E[loss] / E[weight].

    A unit is a group of problems, or a problem without a group. The loss of a problem is the mean
    over its draws. The loss of a unit is the mean over its problems or, where a group counts by its
    size, the sum over its problems divided by the largest size a group can have (`Groups`). So
    several rollouts or problems never count as several units. Units are assumed to be independent
    draws from one population; this is not checked, and cannot be.

    Tests look at X = loss - alpha * weight + alpha, which lies in [0, 1] and whose mean is at most
    alpha if and only if the risk is.

    Attributes:
        loss_UT: in [0, weight].
        weight_UT: in [0, 1]; for `selective` the share answered, and smaller for a group below the
            largest size if groups count by their size; 1 everywhere (without memory of its own) if
            the risk is no ratio.

    Raises:
        CalibrationError: the shapes differ, or are not units x policies.
    """

    loss_UT: NDArray[np.float64]
    weight_UT: NDArray[np.float64]
    _binary: list[bool] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.loss_UT.ndim != 2 or self.loss_UT.shape != self.weight_UT.shape:
            raise CalibrationError(
                f"losses are {self.loss_UT.shape} and weights {self.weight_UT.shape}: "
                "give units x policies for both"
            )

    @classmethod
    def unweighted(cls, loss_UT: NDArray[np.float64]) -> Self:
        """Losses of a risk that is a plain mean; every weight is 1."""
        return cls(loss_UT, np.broadcast_to(np.float64(1), loss_UT.shape))

    @property
    def n_units(self) -> int:
        """Number of exchangeable units."""
        return len(self.loss_UT)

    @property
    def n_policies(self) -> int:
        """Number of policies."""
        return int(self.loss_UT.shape[1])

    @property
    def is_ratio(self) -> bool:
        """Whether the risk is a ratio of two means, so that weights may differ from 1."""
        constant = self.weight_UT.strides == (0, 0)
        return not constant or bool((self.weight_UT[:1, :1] != 1).any())

    @property
    def binary(self) -> bool:
        """Whether every loss and every weight is exactly 0 or 1; computed once."""
        if not self._binary:
            found = _all_0_or_1(self.loss_UT) and (not self.is_ratio or _all_0_or_1(self.weight_UT))
            self._binary.append(found)
        return self._binary[0]

    @property
    def total_loss_T(self) -> NDArray[np.float64]:
        """Sum of the units' losses."""
        return np.asarray(self.loss_UT.sum(axis=0))

    @property
    def total_weight_T(self) -> NDArray[np.float64]:
        """Sum of the units' weights."""
        if not self.is_ratio:
            return np.full(self.n_policies, float(self.n_units))
        return np.asarray(self.weight_UT.sum(axis=0))

    @property
    def risk_T(self) -> NDArray[np.float64]:
        """Empirical risk: total loss over total weight.

        Without weight (nothing was answered) the risk is undefined. It is then set to 1, the worst
        value, so that such a policy comes last when policies are sorted by risk.
        """
        weight_T = self.total_weight_T
        risk_T = np.ones(self.n_policies)
        np.divide(self.total_loss_T, weight_T, out=risk_T, where=weight_T > 0)
        return risk_T

    def select(self, columns: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The losses under some of the policies, in the order of `columns` (indices or a mask)."""
        loss_UT = self.loss_UT[:, columns]
        if not self.is_ratio:
            return type(self).unweighted(loss_UT)
        return type(self)(loss_UT, self.weight_UT[:, columns])

    def take(self, rows_U: NDArray[np.intp]) -> Self:
        """The losses of some units, in the order of their row numbers; a row may occur twice."""
        if not self.is_ratio:
            return type(self).unweighted(self.loss_UT[rows_U])
        return type(self)(self.loss_UT[rows_U], self.weight_UT[rows_U])


def _all_0_or_1(values_UT: NDArray[np.float64]) -> bool:
    rows = max(1, _BLOCK // max(1, values_UT.shape[1]))
    for start in range(0, len(values_UT), rows):
        block = values_UT[start : start + rows]
        if not ((block == 0) | (block == 1)).all():
            return False
    return True
