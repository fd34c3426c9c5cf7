"""The project's own procedures, on p-values that are computed once."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration import ExitPolicy, Promise
from calibration.certificate.fitting.tested import certify_policies
from calibration.simulation.losses import Losses
from calibration.simulation.replay import Replay
from calibration.testing.chains import Chain, family_of_chains
from calibration.testing.families import Family
from calibration.testing.fwer import delta_per_level
from calibration.testing.learned_path import learn_path
from calibration.testing.methods import SHARE_OF_PATH
from calibration.testing.p_values import PValue
from tests.statistical.fits import Fit, Source
from tests.statistical.policies import DELTA, Grid, Structure

tested_module = importlib.import_module("calibration.certificate.fitting.tested")

Certifier = Callable[[Fit, Promise], NDArray[np.bool_]]
"""Which policies of the grid are certified at which level."""


def certifiers(grid: Grid, alphas: Sequence[float]) -> dict[str, Certifier]:
    """The project's own procedures."""
    ready: dict[str, Certifier] = {
        structure: certify_family(family, grid)
        for structure, family in grid.families(alphas).items()
    }
    return ready | {Structure.SPLIT: split, Structure.PATH: path_beside_chains}


def split(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
    """A path learned on other problems, tested in its order."""
    return certify_family(learned_path(fit, fit.order, promise), fit.source.grid)(fit, promise)


def path_beside_chains(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
    """A path learned on other problems, and chains that are fixed."""
    family = learned_path(fit, fit.order, promise, beside=fit.source.grid.chains)
    return certify_family(family, fit.source.grid)(fit, promise)


def learned_path(
    fit: Fit, order: Losses, promise: Promise, beside: Sequence[Sequence[ExitPolicy]] = ()
) -> Family:
    """The chain learned on `order`; with chains beside it, it has the default's share of δ."""
    level_delta = delta_per_level(DELTA, fit.alphas, promise)
    path = learn_path(_as_replay(fit.source, order), level_delta, fit.token_price)
    policies, share = fit.source.grid.policies, SHARE_OF_PATH if beside else 1.0
    chains = [Chain(tuple(policies[t] for t in path), share)]
    chains += [Chain(tuple(chain), (1 - share) / len(beside)) for chain in beside]
    return family_of_chains([chains for _ in fit.alphas], "learned")


def certify_family(family: Family, grid: Grid) -> Certifier:
    """What the real `certify_policies` certifies for a family, as policies of the whole grid."""
    columns = grid.columns(family.policies)

    def certify(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
        with shared_p_values(fit, columns):
            losses = fit.losses.select(columns)
            tested = certify_policies(losses, family, fit.alphas, DELTA, promise, fit.kind)
        certified_LT = np.zeros(fit.p_LT.shape, dtype=np.bool_)
        for column, certified_L in zip(columns, tested.certified_LT.T, strict=True):
            certified_LT[:, column] |= certified_L
        return certified_LT

    return certify


@contextmanager
def shared_p_values(fit: Fit, columns: NDArray[np.intp]) -> Iterator[None]:
    """`certify_policies` looks up the p-values of `fit` instead of computing them."""

    def look_up(
        losses: Losses, alphas: Sequence[float], kind: PValue, seed: int, target_LT: ArrayLike
    ) -> NDArray[np.float64]:
        at_L = np.asarray(target_LT)[:, 0]
        rows = [fit.tables.get(at, fit.p_LT)[level] for level, at in enumerate(at_L)]
        return np.stack(rows)[:, columns]

    computed = tested_module.p_value_table
    tested_module.p_value_table = look_up
    try:
        yield
    finally:
        tested_module.p_value_table = computed


def _as_replay(source: Source, losses: Losses) -> Replay:
    n = losses.n_units
    weight_T = losses.total_weight_T / n
    return Replay(
        losses=losses,
        answered_T=weight_T,
        right_T=weight_T - losses.total_loss_T / n,
        tokens_T=source.tokens_T,
        full_tokens=float(source.tokens_T[0]),
        full_right=0.0,
        n_problems=n,
        n_draws=n,
    )
