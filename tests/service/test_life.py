"""Clients that leave, clients too many, and SIGTERM, with the real engine."""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from pathlib import Path

import httpx
import psutil
import pytest

from tests.served import QUESTION, Served, serving, wait_for
from tests.service.clients import LONG, ask, until

pytestmark = pytest.mark.engine

RUNNING, WAITING = 8, 1
READING = 0.1
"""Seconds that it may take this machine to ask for the metrics once more."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = ["--max-running", str(RUNNING), "--max-waiting", str(WAITING)]
    with serving(tmp_path_factory.mktemp("life"), *options) as running:
        yield running


class Caller:
    """A client on a socket of its own, which it can drop at any moment."""

    def __init__(self, service: Served, **body: object) -> None:
        url = httpx.URL(service.url)
        content = json.dumps({"problem": QUESTION} | body).encode()
        head = f"POST /solve HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: {len(content)}\r\n"
        self._socket = socket.create_connection((url.host, url.port or 80), timeout=60)
        self._socket.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)

    def read_until(self, words: bytes) -> None:
        """Reads the response up to there."""
        read = b""
        while words not in read:
            part = self._socket.recv(65536)
            assert part, f"the response ended: {read!r}"
            read += part

    def hang_up(self) -> None:
        self._socket.close()


def seconds_of_a_checkpoint(service: Served) -> float:
    """From one to the next of a sample, while the others of a long question run as well."""
    read = [
        time.monotonic()
        for name, data in service.stream(**LONG)
        if name == "checkpoint" and data["sample"] == 0 and not data["is_final"]
    ]
    return statistics.median(later - earlier for earlier, later in pairwise(read))


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_work_within_a_checkpoint(
    service: Served, stream: bool
) -> None:
    checkpoint = seconds_of_a_checkpoint(service)
    gone = service.metric("rlcm_http_clients_gone_total")
    caller = Caller(service, stream=stream, **LONG)
    if stream:
        caller.read_until(b"event: checkpoint")
    until(lambda: service.metric("rlcm_engine_requests") == LONG["n"])

    caller.hang_up()
    took = until(lambda: service.metric("rlcm_engine_requests") == 0)

    assert took < checkpoint + READING
    until(lambda: service.metric("rlcm_http_clients_gone_total") == gone + 1)
    assert service.metric("rlcm_queue_running") == 0


def test_more_than_can_wait_is_told_when_to_come_back(
    service: Served, threads: ThreadPoolExecutor
) -> None:
    clients, asking = ask(threads, service, plain=RUNNING, streamed=0, n=4)
    waiting = threads.submit(service.solve)
    until(lambda: service.metric("rlcm_queue_waiting") == WAITING)

    for stream in (False, True):
        refused = service.solve(stream=stream)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 300
        assert refused.json()["type"] == "urn:rlcm:problem:overloaded"

    wait(asking, timeout=120)
    assert [client.status for client in clients] == [200] * RUNNING
    assert waiting.result().status_code == 200, "it waited, and had its turn"


def stop(service: Served) -> list[psutil.Process]:
    """Sends SIGTERM; once it is stopping, returns the processes it has."""
    family = service.family()
    service.process.terminate()
    wait_for(service.client, "/readyz", 10, status=503)
    return family


def has_ended(service: Served, family: list[psutil.Process]) -> None:
    """With status 0, and nothing left behind."""
    assert service.process.wait(timeout=60) == 0
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_sigterm_lets_finish_what_runs(service: Served, threads: ThreadPoolExecutor) -> None:
    """The last test of the service that all tests above share."""
    clients, asking = ask(threads, service, plain=2, streamed=2, n=4)
    family = stop(service)
    refused = service.solve()
    assert refused.status_code == 503
    assert refused.json()["stage"] == "stopping"
    assert not all(future.done() for future in asking), "it came while they ran"
    wait(asking, timeout=120)
    assert [future.exception() for future in asking] == [None] * 4
    assert [client.status for client in clients] == [200] * 4
    assert [client.names[-1] for client in clients[2:]] == ["done"] * 2
    has_ended(service, family)


def test_sigterm_ends_what_takes_too_long(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    with serving(tmp_path, "--drain-s", "0.2") as service:
        clients, asking = ask(threads, service, plain=2, streamed=2, n=32)
        family = stop(service)
        wait(asking, timeout=30)
        assert [future.exception() for future in asking] == [None] * 4
        assert [client.status for client in clients] == [503] * 2 + [200] * 2
        assert [client.names[-1] for client in clients[2:]] == ["error"] * 2
        assert {client.problem["stage"] for client in clients} == {"stopping"}
        has_ended(service, family)
