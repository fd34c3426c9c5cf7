"""Repeated fits of one setting: how often something false is certified, and served.

A fit draws losses, computes the p-values of the real tests and gives them to every way of
certifying; each is then wrong if it certifies a policy whose true risk is above the level. What is
*served* is wrong if the policy handed to a request is above the risk it asked for. False
certificates bound what is served however a policy is chosen among the certified, so they are what
is held against δ; what is served depends on choice and serving rule, and shows faults in those.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import statsmodels.stats.multitest  # noqa: F401  loaded now, not in the first fit
from numpy.typing import NDArray

from calibration import Promise
from tests.statistical.fits import Fit, Setting, Source, fits
from tests.statistical.procedures import Certifier


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
    with _little_garbage():
        for fit in fits(source, setting):
            for name, promise in keys:
                certified_LT = certify[name](fit, promise)
                _count(tallies[name, promise], fit, certified_LT, null_LT, serve)
    return tallies


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


@contextmanager
def _little_garbage() -> Iterator[None]:
    """statsmodels collects garbage in every call: let it look at what is new only."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
