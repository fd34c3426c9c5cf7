"""More connections than the process may have open files."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.attack import few_files
from tests.rlcm_serve.api.serving import PROBLEM

pytestmark = pytest.mark.attack

LIMIT = 400
LINE = "too many connections: closing those"


@contextmanager
def short_of_files(folder: Path, log: Path) -> Iterator[str]:
    """The address of a service that may open `LIMIT` files."""
    command = [sys.executable, "-m", few_files.__name__, str(folder), str(LIMIT)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().decode().strip()
        process.stdin.close()
        process.wait(60)


def test_health_answers_while_connections_exhaust_the_files(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with short_of_files(tmp_path / "state", log) as url, ExitStack() as open_:
        at = httpx.URL(url)
        body = {"problem": PROBLEM, "alpha": 0.1}
        assert httpx.post(f"{url}/solve", json=body).status_code == 200
        kept = open_.enter_context(httpx.Client(base_url=url))
        statuses: list[int] = []
        slowest = 0.0
        for number in range(3 * LIMIT):
            idle = socket.create_connection((str(at.host), at.port or 80), timeout=20)
            open_.callback(idle.close)
            if number % 3 == 0:
                idle.sendall(b"POST /solve HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
            if number % 25 == 0:
                began = time.monotonic()
                statuses.append(httpx.get(f"{url}/health", timeout=20).status_code)
                slowest = max(slowest, time.monotonic() - began)
        sys.stdout.write(f"{len(statuses)} times /health, the slowest in {slowest:.3f} s\n")
        assert set(statuses) == {200}
        assert kept.post("/solve", json=body).status_code == 200, "while the others are open"
        assert kept.get("/certificates").status_code == 200, "there are files for the database"
    assert log.read_text().count(LINE) == 1
    assert "Too many open files" not in log.read_text()
