"""Where time goes, on a clock that is wound by hand."""

from __future__ import annotations

import pytest

from training.rl.trainer.step_clock import StepClock, overhead


class Hand:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_the_inner_part_counts_and_nothing_counts_twice() -> None:
    now = Hand()
    clock = StepClock(now)
    with clock("update"):
        now.at += 1
        with clock("rollouts"):
            now.at += 2
            with clock("weights"):
                now.at += 4
            now.at += 8
        now.at += 16
    now.at += 32  # between parts
    with clock("rollouts"):
        now.at += 64
    assert clock.finish() == {"update": 17, "rollouts": 74, "weights": 4}
    assert clock.finish() == {}


def test_a_part_that_fails_is_closed() -> None:
    now = Hand()
    clock = StepClock(now)
    with clock("update"):
        with pytest.raises(ZeroDivisionError), clock("probe"):
            now.at += 1 + 0 // int(now.at)
        now.at += 2
    assert clock.finish() == {"probe": 0, "update": 2}


def test_overhead_is_against_the_same_step_without_what_is_added() -> None:
    assert overhead({"update": 6.0, "rollouts": 4.0, "forced answers": 4.0, "probe": 1.0}) == 1.5
    assert overhead({"update": 6.0}) == overhead({}) == 1.0
