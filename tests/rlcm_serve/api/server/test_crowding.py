"""Which connections end when there are too many."""

import logging
from dataclasses import dataclass

import pytest

from rlcm_serve.api.server.crowding import LOG_EVERY, ROOM, Crowding


@dataclass(eq=False)
class Guest:
    """A connection whose client was last heard at a time."""

    heard_at: float
    waits_for_client: bool = True
    is_open: bool = True

    def drop(self) -> None:
        self.is_open = False


def test_whoever_was_silent_longest_goes_and_nobody_who_is_served() -> None:
    served = [Guest(0.0, waits_for_client=False) for _ in range(5)]
    silent = [Guest(float(at)) for at in range(1, 60)]
    newest = Guest(0.5)
    everyone = {*served, *silent, newest}
    Crowding().make_room(everyone, newest, 62)
    gone = [one.heard_at for one in silent if not one.is_open]
    assert gone == list(range(1, 3 + ROOM + 1)), "65 connections, 62 allowed, and some room"
    assert newest.is_open
    assert all(one.is_open for one in served)


def test_those_that_are_closing_do_not_count() -> None:
    closing = [Guest(0.0, is_open=False) for _ in range(50)]
    silent = [Guest(1.0) for _ in range(9)]
    Crowding().make_room([*closing, *silent], Guest(2.0), 10)
    assert all(one.is_open for one in silent)


def test_the_log_has_one_line_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    crowding = Crowding(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            crowding.make_room([Guest(0.0)], Guest(1.0), 1)
        assert len(caplog.records) == 1
        now[0] += LOG_EVERY
        crowding.make_room([Guest(0.0)], Guest(1.0), 1)
    assert len(caplog.records) == 2
