"""Invalid procedures that people use in practice; the harness must detect each of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibration import Promise
from calibration.testing.chains import Chain, family_of_chains
from tests.statistical.fits import Fit
from tests.statistical.harness import served
from tests.statistical.policies import DELTA, Grid, Structure
from tests.statistical.procedures import Certifier, certify_family, learned_path


def best_bound(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
    """The policy with the smallest upper bound in the grid, as if it were the only one."""
    certified_LT = np.zeros(fit.p_LT.shape, dtype=np.bool_)
    best_L = fit.p_LT.argmin(axis=1)
    levels_L = np.arange(len(best_L))
    certified_LT[levels_L, best_L] = fit.p_LT[levels_L, best_L] <= DELTA
    return certified_LT


def order_from_test_labels(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
    """The path of `split`, learned on the same problems that test it."""
    family = learned_path(fit, fit.losses, promise)
    return certify_family(family, fit.source.grid)(fit, promise)


def path_from_test_labels(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
    """Such a path with its share of δ beside fixed chains."""
    family = learned_path(fit, fit.losses, promise, beside=fit.source.grid.chains)
    return certify_family(family, fit.source.grid)(fit, promise)


def forks_without_dividing(grid: Grid, alphas: tuple[float, ...]) -> Certifier:
    """A chain that forks, where each fork keeps all of δ instead of its share."""
    whole = [
        certify_family(family_of_chains([[Chain(chain, 1.0)]] * len(alphas), "all of δ"), grid)
        for chain in grid.chains
    ]

    def certify(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
        return np.logical_or.reduce([one(fit, promise) for one in whole])

    return certify


def rollouts_as_problems(grid: Grid, alphas: tuple[float, ...], rollouts: int) -> Certifier:
    """Exact binomial tests in a fixed sequence that count every rollout as a separate problem."""
    sequence = certify_family(grid.families(alphas)[Structure.SEQUENCE], grid)

    def certify(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
        wrong_T = np.rint(rollouts * fit.losses.total_loss_T).astype(int)
        answered_T = np.rint(rollouts * fit.losses.total_weight_T).astype(int)
        p_LT = np.stack([special.bdtr(wrong_T, answered_T, alpha) for alpha in alphas])
        return sequence(replace(fit, tables={DELTA: p_LT}), promise)

    return certify


def first_that_failed(grid: Grid, alphas: tuple[float, ...]) -> Certifier:
    """A fixed sequence that returns the policy at which it stopped, not the one before it."""
    family = grid.families(alphas)[Structure.SEQUENCE]
    sequence, columns = certify_family(family, grid), grid.columns(family.policies)

    def certify(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
        passed_L = sequence(fit, promise)[:, columns].sum(axis=1)
        certified_LT = np.zeros(fit.p_LT.shape, dtype=np.bool_)
        failed_L = columns[np.minimum(passed_L, len(columns) - 1)]
        certified_LT[np.arange(len(alphas)), failed_L] = True
        return certified_LT

    return certify


def fall_through(chosen_L: Sequence[int | None], promise: Promise) -> list[int | None]:
    """A request is served at the largest certified level, also under a pointwise guarantee."""
    return served(chosen_L, Promise.SIMULTANEOUS)
