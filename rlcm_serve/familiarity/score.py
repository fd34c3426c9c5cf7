"""The score of unfamiliarity: how far a prompt's last state is from those of known problems.

The score is the squared Mahalanobis distance under probabilistic principal components (Tipping and
Bishop 1999): whitened along the D directions of most variance, and with one variance for all other
directions. With D = H it is the plain Mahalanobis distance. There is a direction for every
`PROBLEMS_PER_DIRECTION` reference problems, so that a large state needs no more problems than it
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

PROBLEMS_PER_DIRECTION = 10
MOST_DIRECTIONS = 512
_RIDGE = 1e-3
"""Added to every variance, as a share of the mean variance: no direction counts without bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class StateScore:
    """A fitted score.

    Attributes:
        mean_H: mean state of the reference problems.
        directions_HD: directions of most variance, of length 1.
        scale_D: standard deviation along each of them.
        rest_variance: variance along every other direction; infinite if there is none.
    """

    mean_H: Floats
    directions_HD: Floats
    scale_D: Floats
    rest_variance: float

    @classmethod
    def fit(cls, states_NH: Floats) -> Self:
        """The score for reference states, one per problem; at least two."""
        states_NH = np.asarray(states_NH, np.float64)
        mean_H = states_NH.mean(0)
        n, size = states_NH.shape
        variances_H, directions_HH = np.linalg.eigh(np.cov(states_NH, rowvar=False))
        variances_H, directions_HH = variances_H[::-1], directions_HH[:, ::-1]
        ridge = max(_RIDGE * float(variances_H.mean()), float(np.finfo(np.float32).tiny))
        kept = min(size, max(1, n // PROBLEMS_PER_DIRECTION), MOST_DIRECTIONS)
        directions_HD = directions_HH[:, :kept]
        scale_D = np.sqrt(np.maximum(variances_H[:kept], 0) + ridge)
        rest = np.inf if kept == size else max(float(variances_H[kept:].mean()), 0) + ridge
        return cls(
            mean_H=mean_H.astype(np.float32),
            directions_HD=directions_HD.astype(np.float32),
            scale_D=scale_D.astype(np.float32),
            rest_variance=rest,
        )

    def of(self, states_NH: Floats) -> NDArray[np.float64]:
        """The score of each state (N); larger is less familiar, NaN for a state with NaN."""
        # In float64 the product would take ten times as long: it would copy all directions.
        centred_NH = np.asarray(states_NH, np.float32) - self.mean_H
        along_ND = (centred_NH @ self.directions_HD).astype(np.float64)
        whitened_N = ((along_ND / self.scale_D) ** 2).sum(1)
        squared_N = (centred_NH.astype(np.float64) ** 2).sum(1)
        rest_N = np.maximum(squared_N - (along_ND**2).sum(1), 0)
        return np.asarray(whitened_N + rest_N / self.rest_variance)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The fields as arrays."""
        return {
            "mean": self.mean_H,
            "directions": self.directions_HD,
            "scale": self.scale_D,
            "rest_variance": np.array(self.rest_variance),
        }

    @classmethod
    def of_tensors(cls, stored: Mapping[str, NDArray[Any]]) -> Self:
        """The score of these tensors; others are ignored.

        Raises:
            KeyError: a tensor is missing.
        """
        return cls(
            mean_H=stored["mean"],
            directions_HD=stored["directions"],
            scale_D=stored["scale"],
            rest_variance=float(stored["rest_variance"]),
        )
