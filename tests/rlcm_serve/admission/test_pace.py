"""Rates and means."""

from __future__ import annotations

from rlcm_serve.admission.pace import WINDOW, BusyRate


def test_a_rate_that_nobody_reads_keeps_one_window() -> None:
    now = 0.0
    rate = BusyRate(lambda: now)
    rate.run()
    for second in range(10_000):
        now = float(second)
        rate.note()
    assert len(rate._events) <= WINDOW
    assert rate.per_second == 1.0
