"""SIGTERM in the middle of a flood ends the service as it ends any other."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.attack.bodies import AT_THE_LIMIT, SOLVE, solve
from tests.attack.target import KEYS, attacked
from tests.service.clients import until

pytestmark = pytest.mark.attack
DRAIN = 5.0
PATIENCE = 60.0
"""Seconds; this machine may be busy."""


def test_sigterm_is_obeyed_during_a_flood(tmp_path: Path) -> None:
    with attacked(tmp_path, "--drain-s", str(DRAIN)) as target:
        over, statuses = threading.Event(), []

        def flood(number: int) -> None:
            bodies = [*SOLVE.values(), *AT_THE_LIMIT.values(), solve(n=8)]
            while not over.is_set():
                body = bodies[number % len(bodies)]
                number += KEYS
                try:
                    statuses.append(target.send(body, key=number, timeout=30).status_code)
                except httpx.TransportError:
                    return

        threads = [threading.Thread(target=flood, args=(number,)) for number in range(2 * KEYS)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(statuses) > 2 * KEYS, PATIENCE)  # it answers during the flood
            target.service.process.terminate()
            began = time.monotonic()
            assert target.service.process.wait(DRAIN + PATIENCE) == 0
            sys.stdout.write(
                f"ended {time.monotonic() - began:.1f} s after SIGTERM, {len(statuses)} answers\n"
            )
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert 500 not in statuses
