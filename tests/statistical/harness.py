"""Repeated fits of one setting: how often something false is certified, and served.

A fit draws losses, computes the p-values of the real tests and passes them to every procedure. A
procedure errs if it certifies a policy whose true risk is above the level. Serving errs if the
policy that a request gets has a risk above the requested one. False certificates bound false
serving for any choice among the certified policies, so they are compared with δ. False serving
depends on the choice and the serving rule, and reveals faults in these.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration import Promise
from tests.statistical.fits import Fit, Setting, Source, fits
from tests.statistical.procedures import Certifier


def served(chosen_L: Sequence[int | None], promise: Promise) -> list[int | None]:
    """The policy that a request gets for each listed alpha, by the rule of `level_for`."""
    if promise is Promise.POINTWISE:
        return list(chosen_L)
    handed: list[int | None] = []
    for chosen in chosen_L:
        handed.append(chosen if chosen is not None or not handed else handed[-1])
    return handed


Serve = Callable[[Sequence[int | None], Promise], list[int | None]]


@dataclass(slots=True, eq=False)
class Tally:
    """The number of erroneous fits, out of `fits`, for one procedure and one guarantee.

    Attributes:
        false_L: something false is certified at a level.
        false_any: something false is certified at any level.
        served_L: a request for a level gets a policy whose risk is above it.
        served_any: this happens at any level.
        certified_L: something is certified at a level.
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
        """Fits that violate the guarantee by what is certified; pointwise: at the worst level."""
        simultaneous = self.promise is Promise.SIMULTANEOUS
        return self.false_any if simultaneous else int(self.false_L.max())

    @property
    def served_violations(self) -> int:
        """Fits that violate the guarantee by what is served."""
        simultaneous = self.promise is Promise.SIMULTANEOUS
        return self.served_any if simultaneous else int(self.served_L.max())


def run(
    source: Source,
    setting: Setting,
    certify: Mapping[str, Certifier],
    serve: Serve = served,
) -> dict[tuple[str, Promise], Tally]:
    """Many fits; the tallies by procedure and guarantee."""
    null_LT = source.risk_T > np.array(setting.alphas)[:, None]
    keys = [(name, promise) for name in certify for promise in setting.promises]
    tallies = {key: _empty(key[1], setting) for key in keys}
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
