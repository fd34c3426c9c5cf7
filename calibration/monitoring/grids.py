"""The fixed grids on which readings are binned before they are ranked.

A bin is a function of the value alone. Grids must never depend on the calibration or on traffic:
then binned readings would not be exchangeable.
"""

import math
from collections.abc import Callable

BINS = 256
"""Of every grid; `declined` uses two of them."""

_LARGEST_LOGIT = 8.0
_PER_LOGIT = 16
_PER_DOUBLING = 12


def _familiarity(p_value: float) -> float:
    return p_value * BINS


def _confidence(confidence: float) -> float:
    """16 bins per unit of the logit, from -8 to 8."""
    odds = min(max(confidence, 1e-9), 1 - 1e-9)
    return (math.log(odds / (1 - odds)) + _LARGEST_LOGIT) * _PER_LOGIT


def _tokens(tokens: float) -> float:
    """12 bins per doubling, up to 2 million."""
    return math.log2(1 + max(tokens, 0)) * _PER_DOUBLING


def _declined(declined: float) -> float:
    return float(declined > 0)


GRIDS: dict[str, Callable[[float], float]] = {
    "familiarity": _familiarity,
    "confidence": _confidence,
    "tokens": _tokens,
    "declined": _declined,
}
"""The statistics that are tested, and where on its grid a value lies."""


def bin_of(name: str, value: float) -> int:
    """The bin of a value, in 0 to `BINS` - 1; values beyond the grid are in its outermost bins."""
    return min(max(int(GRIDS[name](value)), 0), BINS - 1)


def value_in(name: str, place: int) -> float:
    """A value in a bin: the middle of the bin on its grid."""
    middle = place + 0.5
    match name:
        case "familiarity":
            return middle / BINS
        case "confidence":
            return 1 / (1 + math.exp(_LARGEST_LOGIT - middle / _PER_LOGIT))
        case "tokens":
            return 2 ** (middle / _PER_DOUBLING) - 1
    return float(place > 0)
