"""The cells that are simulated: every pair of settings at least once, in few rows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

from scipy import stats

Row = tuple[object, ...]
Pair = tuple[int, object, int, object]

ALARM = 0.001
"""The probability that a test of all cells fails by chance."""


def pairwise(factors: Mapping[str, Sequence[object]], allowed: Callable[[Row], bool]) -> list[Row]:
    """A covering array of strength two, built greedily; the same for the same factors.

    Each row is the allowed combination with the most pairs that do not occur yet. Ties go to the
    combination whose pairs occurred least often so far, then to the first. A pair that occurs in no
    allowed combination is left out.

    Args:
        factors: settings by name; a row holds one of each, in this order.
        allowed: whether a row makes sense.
    """
    rows = [row for row in product(*factors.values()) if allowed(row)]
    pairs_by_row = [_pairs(row) for row in rows]
    missing: set[Pair] = set().union(*pairs_by_row)
    met: Counter[Pair] = Counter()

    def gain(index: int) -> tuple[int, int]:
        pairs = pairs_by_row[index]
        return len(pairs & missing), -sum(met[pair] for pair in pairs)

    design = []
    while missing:
        best = max(range(len(rows)), key=gain)
        design.append(rows[best])
        missing -= pairs_by_row[best]
        met.update(pairs_by_row[best])
    return design


def _pairs(row: Row) -> set[Pair]:
    return {(i, a, j, b) for (i, a), (j, b) in combinations(enumerate(row), 2)}


def most_errors(fits: int, delta: float, cells: int) -> int:
    """The largest number of violations that a valid procedure may show in `fits` fits.

    With probability 1 - ALARM, none of `cells` valid cells exceeds it (Bonferroni over the cells,
    exact binomial tail within each).
    """
    return int(stats.binom.isf(ALARM / cells, fits, delta))


def fewest_errors(fits: int, share: float, cells: int) -> int:
    """The smallest number of violations of a procedure that errs with probability `share`."""
    return int(stats.binom.ppf(ALARM / cells, fits, share))
