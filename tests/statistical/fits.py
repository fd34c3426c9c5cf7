"""Fits: draws of losses with the p-values that all procedures share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibration import Promise
from calibration.certificate.certify import target_level
from calibration.simulation.losses import Losses
from calibration.testing.learned_path import SLACK, choose_policy
from calibration.testing.p_values import PValue, p_value_table
from tests.statistical.policies import DELTA, Grid

BATCH = 4_000_000
"""Losses tested in one go."""


class Source(Protocol):
    """What losses are drawn from, with every risk known."""

    grid: Grid
    may_abstain: bool
    tokens_T: NDArray[np.float64]

    @property
    def risk_T(self) -> NDArray[np.float64]: ...

    def sample(self, rng: np.random.Generator, n: int) -> Losses: ...


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One draw of losses, and what is computed from it once: levels (L) x policies (T).

    Attributes:
        tables: p-values by the level that the test aims at.
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
        """P-values of tests that aim at δ."""
        return self.tables[DELTA]

    @property
    def slack(self) -> float | None:
        return SLACK if self.source.may_abstain else None

    def chosen(self, certified_T: NDArray[np.bool_]) -> int:
        """The policy that `certify` would serve; its tokens are expectations, not of this draw."""
        among = np.flatnonzero(certified_T)
        tokens_T, risk_T = self.source.tokens_T[among], self.losses.risk_T[among]
        return int(among[choose_policy(self.right_T[among], tokens_T, risk_T, self.slack)])


@dataclass(frozen=True)
class Setting:
    """What p-values depend on, and so what the procedures of one run share.

    Attributes:
        alphas: risk levels, rising.
        kind: the test.
        n: units that test.
        fits: how often.
        seed: of the draws.
        promises: made by every procedure.
        own_aims: a betting test aims at the share of δ of the family it is for, as in `certify`;
            else all share one that aims at δ, equally valid and many times faster.
    """

    alphas: tuple[float, ...]
    kind: PValue
    n: int
    fits: int
    seed: int = 0
    promises: tuple[Promise, ...] = tuple(Promise)
    own_aims: bool = True

    def aims(self, grid: Grid) -> tuple[float, ...]:
        """What the tests of all families aim at; binomial and bounds of means aim at nothing."""
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
    """The losses of several fits as if they were policies of one, which tests take faster."""
    loss_UT = np.concatenate([losses.loss_UT for losses in drawn], axis=1)
    if not drawn[0].is_ratio:
        return Losses.unweighted(loss_UT)
    return Losses(loss_UT, np.concatenate([losses.weight_UT for losses in drawn], axis=1))
