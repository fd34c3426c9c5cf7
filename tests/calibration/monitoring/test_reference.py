"""What drift is measured against: bins that are the same for recorded and for live readings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.monitoring.grids import BINS, GRIDS, bin_of, value_in
from calibration.monitoring.reference import ReferenceCounts, middles


@given(st.sampled_from([name for name in GRIDS if name != "declined"]), st.integers(0, BINS - 1))
def test_the_middle_of_a_bin_lies_in_it(name: str, place: int) -> None:
    assert bin_of(name, value_in(name, place)) == place
    assert middles(name)[place] == value_in(name, place)


@pytest.mark.parametrize("declined", [0, 1])
def test_declined_has_two_bins(declined: int) -> None:
    assert bin_of("declined", value_in("declined", declined)) == declined


@given(st.lists(st.integers(1, 40_000), max_size=50))
def test_every_value_is_counted_in_its_bin(tokens: list[int]) -> None:
    counted = ReferenceCounts.of("tokens", np.array(tokens, dtype=float))
    by_bin = counted.by_bin()
    assert (len(by_bin), sum(by_bin)) == (BINS, len(tokens))
    assert sum(n for _, n in counted.counts) == len(tokens)
    assert all(by_bin[bin_of("tokens", one)] >= 1 for one in tokens)


@pytest.mark.parametrize(
    ("statistic", "counts"),
    [
        ("mood", ()),
        ("tokens", ((256, 1),)),
        ("tokens", ((-1, 1),)),
        ("tokens", ((3, 0),)),
        ("tokens", ((3, 1), (3, 2))),
        ("tokens", ((4, 1), (3, 2))),
        ("tokens", ((3, 1, 2),)),
        ("tokens", ((3,),)),
    ],
)
def test_what_is_no_count_of_bins_is_refused(
    statistic: str, counts: tuple[tuple[int, ...], ...]
) -> None:
    with pytest.raises(ValueError, match=r"unknown statistic|no counts of bins"):
        ReferenceCounts(statistic, counts)  # type: ignore[arg-type]
