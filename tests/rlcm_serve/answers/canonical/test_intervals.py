"""Sets of real numbers, compared with membership in them."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from rlcm_serve.answers.canonical import intervals
from rlcm_serve.answers.canonical.intervals import HIGHEST, LOWEST, End, Piece, RealSet

ENDS = [LOWEST, *(End.of(Fraction(n, 2)) for n in range(6)), HIGHEST]
PROBES = [End.of(Fraction(n, 4)).place for n in range(-3, 14)]
flags = st.booleans()


@st.composite
def sets(draw: st.DrawFn) -> RealSet:
    pieces = []
    for _ in range(draw(st.integers(0, 4))):
        low, high = sorted((draw(st.integers(0, 7)), draw(st.integers(0, 7))))
        closed = (draw(flags) and low > 0, draw(flags) and high < 7)
        pieces.append(Piece(ENDS[low], ENDS[high], closed))
    return intervals.union(tuple(pieces))


def holds(numbers: RealSet, place: int | float) -> bool:
    return any(
        piece.low.place < place < piece.high.place
        or (place == piece.low.place and piece.closed[0])
        or (place == piece.high.place and piece.closed[1])
        for piece in numbers
    )


@settings(max_examples=500)
@given(sets(), sets())
def test_operations_are_those_of_membership(one: RealSet, other: RealSet) -> None:
    union, both = intervals.union(one, other), intervals.intersection(one, other)
    rest = intervals.complement(one)
    for place in PROBES:
        assert holds(union, place) == (holds(one, place) or holds(other, place))
        assert holds(both, place) == (holds(one, place) and holds(other, place))
        assert holds(rest, place) != holds(one, place)


@settings(max_examples=500)
@given(sets(), sets())
def test_equal_sets_have_one_key(one: RealSet, other: RealSet) -> None:
    same = all(holds(one, place) == holds(other, place) for place in PROBES)
    assert (intervals.key(one) == intervals.key(other)) == same
    assert intervals.key(intervals.complement(intervals.complement(one))) == intervals.key(one)
