"""A clock that never goes back."""

from rlcm_serve.monitoring.steady_clock import SteadyClock


def test_it_follows_the_host_forwards_and_keeps_its_pace_when_that_is_set_back() -> None:
    host, passed = [1000.0], [50.0]
    clock = SteadyClock(0.0, lambda: host[0], lambda: passed[0])
    assert clock() == 1000.0
    host[0], passed[0] = host[0] + 7200.0, passed[0] + 1.0
    assert clock() == 8200.0
    host[0], passed[0] = host[0] - 3600.0, passed[0] + 1.0
    assert clock() == 8201.0
    host[0], passed[0] = host[0] + 3605.0, passed[0] + 1.0
    assert clock() == 8205.0


def test_it_begins_where_a_former_process_ended() -> None:
    passed = [50.0]
    clock = SteadyClock(5000.0, lambda: 1000.0, lambda: passed[0])
    assert clock() == 5000.0
    passed[0] += 2.0
    assert clock() == 5002.0
