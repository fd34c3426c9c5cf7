"""Repeated fits of one setting: how often something false is certified, and served.

A fit draws losses, computes the p-values of the real tests and gives them to every way of
certifying; each is then wrong if it certifies a policy whose true risk is above the level. What is
*served* is wrong if the policy handed to a request is above the risk it asked for. False
certificates bound what is served however a policy is chosen among the certified, so they are what
is held against δ; what is served depends on choice and serving rule, and shows faults in those.
"""

import gc
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import statsmodels.stats.multitest  # noqa: F401  loaded now, not in the first fit
from numpy.typing import ArrayLike, NDArray

from calibration import Promise
from calibration.certify import aim, certify_policies
from calibration.families import Chain, Family, family_of_chains
from calibration.fwer import delta_per_level
from calibration.losses import Losses
from calibration.order import SLACK, choose, lay_path
from calibration.pvalues import PValue, p_value_table
from calibration.replay import Replay
from tests.statistical.policies import DELTA, Grid, Structure

BATCH = 4_000_000
"""Losses tested in one go."""

certify_module = importlib.import_module("calibration.certify")


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
        return int(among[choose(self.right_T[among], tokens_T, risk_T, self.slack)])


Certifier = Callable[[Fit, Promise], NDArray[np.bool_]]
"""Which policies of the grid are certified at which level."""


def certifiers(grid: Grid, alphas: Sequence[float]) -> dict[str, Certifier]:
    """The project's own procedures."""
    ready: dict[str, Certifier] = {
        structure: certify_family(family, grid)
        for structure, family in grid.families(alphas).items()
    }
    return ready | {Structure.SPLIT: split}


def split(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
    """A path laid on other problems, tested in its order."""
    return certify_family(learned_path(fit, fit.order, promise), fit.source.grid)(fit, promise)


def learned_path(fit: Fit, order: Losses, promise: Promise) -> Family:
    """The chain that `order` suggests."""
    level_delta = delta_per_level(DELTA, fit.alphas, promise)
    path = lay_path(_as_replay(fit.source, order), level_delta, fit.slack)
    policies = fit.source.grid.policies
    chain = Chain(tuple(policies[t] for t in path), 1.0)
    return family_of_chains([[chain] for _ in fit.alphas], "learned")


def served(chosen_L: Sequence[int | None], promise: Promise) -> list[int | None]:
    """The policy handed to a request for each listed alpha, by the rule of `level_for`."""
    if promise is Promise.POINTWISE:
        return list(chosen_L)
    handed: list[int | None] = []
    for chosen in chosen_L:
        handed.append(chosen if chosen is not None or not handed else handed[-1])
    return handed


Serve = Callable[[Sequence[int | None], Promise], list[int | None]]


@dataclass(slots=True, eq=False)
class Tally:
    """Fits that went wrong, of `fits`, for one way of certifying under one promise.

    Attributes:
        false_L: something false is certified at a level.
        false_any: at any level.
        served_L: a request for a level is handed a policy above it.
        served_any: a request for any level is.
        certified_L: anything is certified at a level.
    """

    promise: Promise
    fits: int
    false_L: NDArray[np.int64]
    served_L: NDArray[np.int64]
    certified_L: NDArray[np.int64]
    false_any: int = 0
    served_any: int = 0

    @property
    def violations(self) -> int:
        """Fits that break the promise by what is certified; pointwise: at the worst level."""
        simultaneous = self.promise is Promise.SIMULTANEOUS
        return self.false_any if simultaneous else int(self.false_L.max())

    @property
    def served_violations(self) -> int:
        """Fits that break it by what is served."""
        simultaneous = self.promise is Promise.SIMULTANEOUS
        return self.served_any if simultaneous else int(self.served_L.max())


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
            aim(family, level, self.alphas, DELTA, promise)
            for family in grid.families(self.alphas).values()
            for level in range(len(self.alphas))
            for promise in self.promises
        }
        return tuple(sorted({DELTA, *asked}))


def run(
    source: Source,
    setting: Setting,
    certify: Mapping[str, Certifier],
    serve: Serve = served,
) -> dict[tuple[str, Promise], Tally]:
    """Fit again and again; the tallies by procedure and promise."""
    null_LT = source.risk_T > np.array(setting.alphas)[:, None]
    keys = [(name, promise) for name in certify for promise in setting.promises]
    tallies = {key: _empty(key[1], setting) for key in keys}
    # statsmodels collects garbage in every call, which takes long where much is loaded.
    gc.collect()
    gc.freeze()
    for fit in fits(source, setting):
        for name, promise in keys:
            certified_LT = certify[name](fit, promise)
            _count(tallies[name, promise], fit, certified_LT, null_LT, serve)
    gc.unfreeze()
    return tallies


def fits(source: Source, setting: Setting) -> Iterator[Fit]:
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


def _count(
    tally: Tally,
    fit: Fit,
    certified_LT: NDArray[np.bool_],
    null_LT: NDArray[np.bool_],
    serve: Serve,
) -> None:
    false_L = (certified_LT & null_LT).any(axis=1)
    chosen_L = [fit.chosen(row) if row.any() else None for row in certified_LT]
    handed_L = serve(chosen_L, tally.promise)
    wrong_L = np.array(
        [policy is not None and null_LT[level, policy] for level, policy in enumerate(handed_L)]
    )
    tally.false_L += false_L
    tally.served_L += wrong_L
    tally.certified_L += certified_LT.any(axis=1)
    tally.false_any += bool(false_L.any())
    tally.served_any += bool(wrong_L.any())


def _empty(promise: Promise, setting: Setting) -> Tally:
    zeros = [np.zeros(len(setting.alphas), dtype=np.int64) for _ in range(3)]
    return Tally(promise, setting.fits, *zeros)


def certify_family(family: Family, grid: Grid) -> Certifier:
    """What the real `certify_policies` certifies of a family, as policies of the whole grid."""
    columns = grid.columns(family.policies)

    def certify(fit: Fit, promise: Promise) -> NDArray[np.bool_]:
        with shared_p_values(fit, columns):
            tested = certify_policies(fit.losses, family, fit.alphas, DELTA, promise, fit.kind)
        certified_LT = np.zeros(fit.p_LT.shape, dtype=np.bool_)
        for column, certified_L in zip(columns, tested.certified_LT.T, strict=True):
            certified_LT[:, column] |= certified_L
        return certified_LT

    return certify


@contextmanager
def shared_p_values(fit: Fit, columns: NDArray[np.intp]) -> Iterator[None]:
    """`certify_policies` looks the p-values of `fit` up instead of computing them anew."""

    def look_up(
        losses: Losses, alphas: Sequence[float], kind: PValue, seed: int, aim_LT: ArrayLike
    ) -> NDArray[np.float64]:
        at_L = np.asarray(aim_LT)[:, 0]
        rows = [fit.tables.get(at, fit.p_LT)[level] for level, at in enumerate(at_L)]
        return np.stack(rows)[:, columns]

    computed = certify_module.p_value_table
    certify_module.p_value_table = look_up
    try:
        yield
    finally:
        certify_module.p_value_table = computed


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
