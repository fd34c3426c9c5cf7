"""Which questions of a process are being answered."""

from itertools import count

import pytest

from rlcm_serve.monitoring.in_flight import InFlight


def test_the_mark_is_when_the_oldest_question_was_asked() -> None:
    clock = count(1)
    flight = InFlight(lambda: float(next(clock)))
    assert flight.mark() == 1.0
    with flight.question() as first:
        with flight.question() as second:
            assert (first, second) == (2.0, 3.0)
            assert flight.mark() == 2.0
        assert flight.mark() == 2.0
    assert flight.mark() > 3.0


def test_questions_asked_at_one_moment_are_counted_and_failed_ones_end() -> None:
    now = [7.0]
    flight = InFlight(lambda: now[0])
    with flight.question():
        _fail(flight)
        now[0] = 9.0
        assert flight.mark() == 7.0
    assert flight.mark() == 9.0


def _fail(flight: InFlight) -> None:
    with pytest.raises(TimeoutError), flight.question():
        raise TimeoutError
