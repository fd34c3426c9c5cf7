"""Fits: draws of losses with the p-values that all procedures share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibration import Promise
from calibration.certificate.fitting.tested import target_level
from calibration.simulation.losses import Losses
from calibration.testing.learned_path import TOKEN_PRICE, choose_policy
from calibration.testing.p_values import PValue, p_value_table
from tests.statistical.policies import DELTA, Grid

BATCH = 4_000_000
"""Losses tested in one go."""


class Source(Protocol):
    """The source of losses, with every risk known."""

    grid: Grid
    may_abstain: bool
    tokens_T: NDArray[np.float64]

    @property
    def risk_T(self) -> NDArray[np.float64]: ...

    def sample(self, rng: np.random.Generator, n: int) -> Losses: ...


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One draw of losses, and the results that are computed once: levels (L) x policies (T).

    Attributes:
        tables: p-values by the target level of the test.
    """

    source: Source
    losses: Losses
    order: Losses
    alphas: tuple[float, ...]
    kind: PValue
    tables: Mapping[float, NDArray[np.float64]]
    right_T: NDArray[np.float64]

    @property
    def p_LT(self) -> NDArray[np.float64]:
        """P-values of tests with the target level δ."""
        return self.tables[DELTA]

    @property
    def token_price(self) -> float | None:
        return TOKEN_PRICE if self.source.may_abstain else None

    def chosen(self, certified_T: NDArray[np.bool_]) -> int:
        """The policy that `certify` would serve; its tokens are expectations over all draws."""
        among = np.flatnonzero(certified_T)
        tokens_T = self.source.tokens_T[among] / self.source.tokens_T[0]
        risk_T = self.losses.risk_T[among]
        return int(among[choose_policy(self.right_T[among], tokens_T, risk_T, self.token_price)])


@dataclass(frozen=True)
class Setting:
    """The settings on which p-values depend, shared by the procedures of a run.

    Attributes:
        alphas: risk levels, rising.
        kind: the test.
        n: units of the test.
        fits: number of fits.
        seed: seed of the draws.
        promises: the guarantees that every procedure gives.
        own_aims: whether the target level of a betting test is its family's share of δ, as in
            `certify`; otherwise all tests share the target level δ, which is equally valid and many
            times faster.
    """

    alphas: tuple[float, ...]
    kind: PValue
    n: int
    fits: int
    seed: int = 0
    promises: tuple[Promise, ...] = tuple(Promise)
    own_aims: bool = True

    def aims(self, grid: Grid) -> tuple[float, ...]:
        """The target levels of the tests of all families; only betting tests have one."""
        if self.kind is not PValue.BETTING or not self.own_aims:
            return (DELTA,)
        asked = {
            target_level(family, level, self.alphas, DELTA, promise)
            for family in grid.families(self.alphas).values()
            for level in range(len(self.alphas))
            for promise in self.promises
        }
        return tuple(sorted({DELTA, *asked}))


def fits(source: Source, setting: Setting) -> Iterator[Fit]:
    """Independent fits, tested many at a time."""
    rng = np.random.default_rng(setting.seed)
    aims = setting.aims(source.grid)
    size = max(1, min(100, BATCH // (setting.n * len(source.risk_T))))
    for start in range(0, setting.fits, size):
        count = min(size, setting.fits - start)
        drawn = [source.sample(rng, setting.n) for _ in range(count)]
        together = _side_by_side(drawn)
        by_aim = {
            at: np.split(p_value_table(together, setting.alphas, setting.kind, start, at), count, 1)
            for at in aims
        }
        for number, losses in enumerate(drawn):
            tables = {at: tables[number] for at, tables in by_aim.items()}
            order = source.sample(rng, max(20, setting.n // 2))
            right_T = (losses.total_weight_T - losses.total_loss_T) / losses.n_units
            yield Fit(source, losses, order, setting.alphas, setting.kind, tables, right_T)


def _side_by_side(drawn: Sequence[Losses]) -> Losses:
    """The losses of several fits as if they were policies of one fit, which is faster to test."""
    loss_UT = np.concatenate([losses.loss_UT for losses in drawn], axis=1)
    if not drawn[0].is_ratio:
        return Losses.unweighted(loss_UT)
    return Losses(loss_UT, np.concatenate([losses.weight_UT for losses in drawn], axis=1))
