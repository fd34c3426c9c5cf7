"""The input of every test of a risk: the losses of exchangeable units under policies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError

_BLOCK = 1 << 20
"""Elements checked at a time, so that no temporary array is as large as the losses."""
_ROUNDING = 1e-9
"""How far sums may be outside their range."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLabels:
    """Which units (U) have a label, where only a share of them does, and what is predicted of all.

    Attributes:
        labelled_U1: whether it has one: drawn at random with the unit's probability.
        probability_U1: from `least` to 1; depends on nothing but the unit's recordings.
        least: the smallest probability that a unit can have.
        predicted_UT: predicted losses, in [0, weight], from the unit's recordings alone.

    All policies have the same labels. In a simulation a column may be a repetition instead of a
    policy; then the first two have the shape (U, T).
    """

    labelled_U1: NDArray[np.bool_]
    probability_U1: NDArray[np.float64]
    least: float
    predicted_UT: NDArray[np.float64]

    @property
    def inverse_U1(self) -> NDArray[np.float64]:
        """1 / probability where there is a label, and 0 elsewhere: 1 on average."""
        return np.where(self.labelled_U1, 1 / self.probability_U1, 0.0)

    def ratio_T(
        self, loss_UT: NDArray[np.float64], weight_UT: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Total loss over total weight, both estimated from the units with a label; 1 without."""
        loss_T = (self.inverse_U1 * loss_UT).sum(axis=0)
        weight_T = (self.inverse_U1 * weight_UT).sum(axis=0)
        ratio_T: NDArray[np.float64] = np.ones(loss_T.shape)
        np.divide(loss_T, weight_T, out=ratio_T, where=weight_T > 0)
        return ratio_T

    def select(self, columns: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """For some of the policies; see `Losses.select`."""
        if self.labelled_U1.shape[1] == 1:
            return replace(self, predicted_UT=self.predicted_UT[:, columns])
        return type(self)(
            self.labelled_U1[:, columns],
            self.probability_U1[:, columns],
            self.least,
            self.predicted_UT[:, columns],
        )

    def take(self, rows_U: NDArray[np.intp]) -> Self:
        """For some of the units; see `Losses.take`."""
        return type(self)(
            self.labelled_U1[rows_U],
            self.probability_U1[rows_U],
            self.least,
            self.predicted_UT[rows_U],
        )


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
        drawn: which units have a label; None if all do. The losses of the others are unknown, and
            0 here. Then all totals of losses are estimates.

    Raises:
        CalibrationError: the shapes differ, or are not units x policies.
    """

    loss_UT: NDArray[np.float64]
    weight_UT: NDArray[np.float64]
    drawn: DrawnLabels | None = None
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

    def with_labels(self, drawn: DrawnLabels) -> Self:
        """These losses, where only the units that are drawn have a label."""
        loss_UT = np.where(drawn.labelled_U1, self.loss_UT, 0.0)
        return replace(self, loss_UT=loss_UT, drawn=drawn)

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

    def require_ranges(self) -> None:
        """Returns if the values lie where every test needs them, up to rounding.

        Raises:
            CalibrationError: a weight is not in [0, 1], or a loss not in [0, weight].
        """
        for rows in _blocks(self.loss_UT):
            loss_UT, weight_UT = self.loss_UT[rows], self.weight_UT[rows]
            low, high = -_ROUNDING, 1 + _ROUNDING
            fits_UT = (loss_UT >= low) & (loss_UT <= weight_UT + _ROUNDING) & (weight_UT <= high)
            if not fits_UT.all():  # also for NaN
                at = np.unravel_index(np.argmin(fits_UT), fits_UT.shape)
                raise CalibrationError(
                    f"a loss is {loss_UT[at]:g} with the weight {weight_UT[at]:g}: give weights "
                    "from 0 to 1 and losses from 0 to their weight, such as both divided by the "
                    "size of the largest group"
                )

    @property
    def total_loss_T(self) -> NDArray[np.float64]:
        """Sum of the units' losses; an estimate if only a share of them has a label."""
        if self.drawn is not None:
            return self.total_weight_T * self.drawn.ratio_T(self.loss_UT, self.weight_UT)
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
        drawn = self.drawn and self.drawn.select(columns)
        return self._like(self.loss_UT[:, columns], lambda: self.weight_UT[:, columns], drawn)

    def take(self, rows_U: NDArray[np.intp]) -> Self:
        """The losses of some units, in the order of their row numbers; a row may occur twice."""
        drawn = self.drawn and self.drawn.take(rows_U)
        return self._like(self.loss_UT[rows_U], lambda: self.weight_UT[rows_U], drawn)

    def _like(
        self,
        loss_UT: NDArray[np.float64],
        weights: Callable[[], NDArray[np.float64]],
        drawn: DrawnLabels | None,
    ) -> Self:
        """Other losses of the same kind; weights that are all 1 take no memory."""
        if not self.is_ratio:
            return replace(type(self).unweighted(loss_UT), drawn=drawn)
        return type(self)(loss_UT, weights(), drawn)


def _all_0_or_1(values_UT: NDArray[np.float64]) -> bool:
    blocks = (values_UT[rows] for rows in _blocks(values_UT))
    return all(((block == 0) | (block == 1)).all() for block in blocks)


def _blocks(values_UT: NDArray[np.float64]) -> Iterator[slice]:
    """Rows that are looked at together, so that what is compared takes little memory."""
    rows = max(1, _BLOCK // max(1, values_UT.shape[1]))
    return (slice(start, start + rows) for start in range(0, len(values_UT), rows))
