"""The engine hangs (SIGSTOP): the service notices, fails its questions, and restarts it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import psutil
import pytest

from tests.served import SECONDS_TO_READY, Served, serving, shared_memory, wait_for
from tests.service.clients import ask, until

pytestmark = pytest.mark.attack

HANG = 8.0
"""Seconds of the setting `hang_s` here."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("hung"), "--hang-s", str(HANG)) as running:
        yield running


def stop_engine(served: Served) -> psutil.Process:
    """Sends SIGSTOP to the process in which vLLM computes."""
    core = served.engine_core()
    os.kill(core.pid, signal.SIGSTOP)
    return core


def comes_back(served: Served, core: psutil.Process, memory: set[Path], restarts: float) -> None:
    """Holds that the engine was restarted, and that the hung one left nothing."""
    wait_for(served.client, "/readyz", SECONDS_TO_READY)
    assert served.metric("rlcm_engine_restarts_total") == restarts + 1
    assert served.solve().status_code == 200
    assert not core.is_running()
    assert not [path for path in memory if path.exists()]


def test_an_idle_engine_that_hangs_is_restarted(served: Served) -> None:
    restarts, hangs = (served.metric(f"rlcm_engine_{what}_total") for what in ("restarts", "hangs"))
    memory = shared_memory([served.engine_core()])
    core = stop_engine(served)
    stopped = time.monotonic()
    wait_for(served.client, "/readyz", HANG + 5, status=503)
    assert time.monotonic() - stopped > HANG / 2, "it was given its time"
    problem = served.client.get("/readyz").json()
    assert problem["state"] == "restarting"
    assert served.metric("rlcm_engine_up") == 0
    assert served.metric("rlcm_engine_hangs_total") == hangs + 1
    refused = served.solve()
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert served.client.get("/health").status_code == 200
    comes_back(served, core, memory, restarts)


def test_questions_fail_with_503_when_the_engine_hangs_under_them(
    served: Served, threads: ThreadPoolExecutor
) -> None:
    clients, asking = ask(threads, served, plain=4, streamed=4)
    restarts = served.metric("rlcm_engine_restarts_total")
    memory = shared_memory([served.engine_core()])
    core = stop_engine(served)
    wait(asking, timeout=HANG + 5)
    assert [future.exception() for future in asking] == [None] * 8
    assert {client.problem["type"] for client in clients} == {"urn:rlcm:problem:engine-dead"}
    assert [client.status for client in clients[:4]] == [503] * 4
    assert [client.names[-1] for client in clients[4:]] == ["error"] * 4
    comes_back(served, core, memory, restarts)


def test_the_canary_costs_nothing_that_shows(served: Served) -> None:
    """An idle service sends a canary every two seconds here: no metric of questions moves."""
    names = (
        *("rlcm_tokens_total", "rlcm_questions_total", "rlcm_engine_requests"),
        *("rlcm_question_failures_total", "rlcm_engine_hangs_total"),
    )
    before = {name: served.metric(name) for name in names}
    core = served.engine_core()
    spent = sum(core.cpu_times()[:2])
    until(lambda: sum(core.cpu_times()[:2]) > spent, seconds=HANG)  # it did something
    time.sleep(HANG)
    assert {name: served.metric(name) for name in names} == before


def test_a_service_whose_engine_hangs_can_be_stopped(served: Served) -> None:
    """The last test of this service: SIGTERM before the hang is noticed."""
    family = served.family()
    memory = shared_memory([served.engine_core()])
    stop_engine(served)
    served.process.terminate()
    assert served.process.wait(timeout=60) == 0
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    assert not [path for path in memory if path.exists()]
