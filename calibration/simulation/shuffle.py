"""Random orders that are the same on every machine and under every version of numpy."""

import numpy as np
from numpy.typing import NDArray


def shuffled(n: int, seed: int) -> NDArray[np.intp]:
    """The numbers 0 .. n - 1 in a random order that is a function of the seed alone.

    A certificate depends on such orders and must be reproducible years later. numpy guarantees the
    raw stream of a bit generator, but not the results of the methods built on it.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
