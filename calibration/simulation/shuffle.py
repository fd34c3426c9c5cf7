"""Random orders that stay the same: on every machine, and under every version of numpy."""

import numpy as np
from numpy.typing import NDArray


def shuffled(n: int, seed: int) -> NDArray[np.intp]:
    """The numbers 0 .. n - 1 in an order that is random, and a function of the seed alone.

    A certificate depends on such orders and must be recomputable years later; numpy keeps the raw
    stream of a bit generator, not what its methods make of it.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
