"""Scores of unfamiliarity that are compared: each is fitted on states, larger is less familiar."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from rlcm_serve.familiarity.score import Floats, StateScore

Score = Callable[[Floats], NDArray[np.float64]]
"""States (N x H) to scores (N)."""
Fit = Callable[[Floats], Score]
"""Reference states (N x H) to a score."""

DIMENSIONS = (16, 32, 64, 128)
NEIGHBOURS = (1, 5)


def mahalanobis(reference_NH: Floats) -> Score:
    """The score that is served."""
    return StateScore.fit(reference_NH).of


def nearest(dimensions: int, neighbours: int) -> Fit:
    """Distance to the k-th nearest reference state, along whitened principal components."""

    def fit(reference_NH: Floats) -> Score:
        reduced = PCA(dimensions, whiten=True, random_state=0).fit(reference_NH)
        index = NearestNeighbors(n_neighbors=neighbours).fit(reduced.transform(reference_NH))

        def score(states_NH: Floats) -> NDArray[np.float64]:
            distances_NK, _ = index.kneighbors(reduced.transform(states_NH))
            return np.asarray(distances_NK[:, -1])

        return score

    return fit


def kernel_density(dimensions: int) -> Fit:
    """Minus the log of a Gaussian kernel density along whitened principal components.

    The bandwidth is Scott's: n^(-1 / (dimensions + 4)).
    """

    def fit(reference_NH: Floats) -> Score:
        reduced = PCA(dimensions, whiten=True, random_state=0).fit(reference_NH)
        known_MD = reduced.transform(reference_NH)
        bandwidth = len(known_MD) ** (-1 / (dimensions + 4))

        def score(states_NH: Floats) -> NDArray[np.float64]:
            new_ND = reduced.transform(states_NH)
            squared_NM = (
                (new_ND**2).sum(1)[:, None] + (known_MD**2).sum(1) - 2 * new_ND @ known_MD.T
            )
            return np.asarray(-logsumexp(-squared_NM / (2 * bandwidth**2), axis=1))

        return score

    return fit


SCORES: dict[str, Fit] = {
    "Mahalanobis": mahalanobis,
    **{f"{k} nearest, {d} components": nearest(d, k) for k in NEIGHBOURS for d in DIMENSIONS},
    **{f"kernel density, {d} components": kernel_density(d) for d in DIMENSIONS[:3]},
}
"""By name, in the order of the table."""
