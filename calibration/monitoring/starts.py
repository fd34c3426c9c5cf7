"""How wealth is shared out over the times at which games start.

A game that starts before a change loses wealth while nothing is wrong; one that starts after it
loses nothing. So a share of the wealth starts at every time, and what has not started lies idle.
The shares sum to one, which keeps the sum of all games and of what lies idle a nonnegative
supermartingale. Games with the same bets add up, so that all starts cost no more than one.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
State: TypeAlias = dict[str, Array]
"""Arrays by name, one value or row per monitor (M)."""

_LATER = 0.3
LARGEST_WEALTH = 1e100
"""Wealth beyond it is given away, which keeps it a number and the test valid."""


def idle(played_M: Array, unit: float) -> Array:
    """The share of the wealth that has not started after so many bets; it falls to 0.

    0.3 before the first bet, so that a change before it is found early. Between m and 2 m bets
    there starts a share that falls like 1 / log(m)^2, so that a change is found however late it
    comes.
    """
    return _LATER / np.log2(2 + played_M / unit)
