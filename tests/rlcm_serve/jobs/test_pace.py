from rlcm_serve.jobs.pace import WINDOW, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_left_takes_as_long_as_what_was_done() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.seconds_left is None
    pace.note(40, 100)  # what another process has done says nothing
    assert pace.seconds_left is None
    clock.now += 10
    pace.note(45, 100)
    assert pace.seconds_left == 55 * 10 / 5
    clock.now += 10  # nothing more: it slows down
    assert pace.seconds_left == 55 * 20 / 5


def test_only_the_last_minutes_count() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.note(0, 1000)
    for done in range(1, 101):
        clock.now += 100 if done <= 10 else 1  # slow at first
        pace.note(done, 1000)
    clock.now += WINDOW
    pace.note(101, 1000)
    pace.note(102, 1000)
    left = pace.seconds_left
    assert left is not None
    assert left == 898 * WINDOW / 2, "two in the last five minutes"


def test_nothing_is_left_in_the_end() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.note(0, 1)
    clock.now += 1
    pace.note(1, 1)
    assert pace.seconds_left == 0
