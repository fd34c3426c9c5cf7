"""A service whose database is locked, full, damaged, removed or replaced while it runs."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from rlcm_serve.settings import Settings
from rlcm_serve.store.connection.health import FRESH
from tests.rlcm_serve.api.serving import PROBLEM, Running
from tests.service.listening import listening

pytestmark = pytest.mark.attack

WAIT = 1.0
PROMPT = 0.9
"""Seconds in which everything that does not write must be answered; less than a writer waits."""
LOCK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


class Client:
    """A client with a key for everything, on one running service."""

    def __init__(self, url: str, running: Running, state: Path) -> None:
        self.running, self.file = running, state / "rlcm.db"
        key, _ = running.context.keys.create("an operator", ["admin"])
        headers = {"Authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60)

    def close(self) -> None:
        self.http.close()

    def solve(self) -> httpx.Response:
        return self.http.post("/solve", json={"problem": PROBLEM, "alpha": 0.1})

    def calibrate(self, problems: int = 40) -> httpx.Response:
        lines = (f'{{"problem": "A dial shows {n}.", "answer": "{n}"}}\n' for n in range(problems))
        asked = {"alphas": 0.5, "activate": True}
        headers = {"Content-Type": "application/x-ndjson"}
        return self.http.post(
            "/calibrations", params=asked, content="".join(lines), headers=headers
        )

    def reads(self) -> dict[str, Callable[[], httpx.Response]]:
        paths = ("/readyz", "/overview", "/metrics", "/calibrations", "/certificates", "/health")
        return {path: lambda path=path: self.http.get(path) for path in paths} | {
            "/solve": self.solve
        }


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    settings = Settings(state=tmp_path, auth="on", database_wait_s=WAIT)
    with listening(tmp_path, settings=settings) as (url, running):
        client = Client(url, running, tmp_path)
        yield client
        client.close()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process that writes to the database and does not finish."""
    command = [sys.executable, "-c", LOCK, file]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(20)


def refused(response: httpx.Response, name: str) -> dict[str, Any]:
    """The problem document of a 503 with this type, which says when to retry."""
    assert response.status_code == 503, response.text
    document: dict[str, Any] = response.json()
    assert document["type"] == f"urn:rlcm:problem:{name}"
    assert int(response.headers["Retry-After"]) > 0
    return document


def seconds_of(ask: Callable[[], httpx.Response]) -> float:
    began = time.monotonic()
    response = ask()
    assert response.status_code == 200, response.text
    return time.monotonic() - began


def test_a_locked_database_stalls_nothing_but_writes(client: Client) -> None:
    assert client.solve().status_code == 200
    with locked(client.file), ThreadPoolExecutor(40) as crowd:
        writes = [crowd.submit(client.calibrate) for _ in range(30)]
        time.sleep(0.2)
        ended = time.monotonic() + 2 * WAIT
        slowest: dict[str, float] = {}
        while time.monotonic() < ended:  # also past the time for which keys are known
            for path, ask in client.reads().items():
                slowest[path] = max(slowest.get(path, 0.0), seconds_of(ask))
        sys.stdout.write(f"slowest reads while the database is locked: {slowest}\n")
        for write in writes:
            assert "nothing was stored" in refused(write.result(), "database-busy")["detail"]
    assert max(slowest.values()) < PROMPT, slowest
    assert client.calibrate().status_code == 202, "the lock is gone"


def test_a_full_disk_refuses_what_writes_and_nothing_else(client: Client) -> None:
    assert client.solve().status_code == 200
    with full(client):
        detail = refused(client.calibrate(problems=4000), "storage-full")["detail"]
        assert detail == "no space is left on the disk; nothing was stored"
        for ask in client.reads().values():
            assert ask().status_code == 200
        assert client.http.get("/calibrations").json()["calibrations"] == []
    assert client.calibrate().status_code == 202, "there is space again, without a restart"


@contextmanager
def full(client: Client) -> Iterator[None]:
    """Lets the database file grow no further."""
    engine = client.running.context.database._engine
    with closing(sqlite3.connect(client.file)) as database:
        (pages,) = database.execute("PRAGMA page_count").fetchone()

    def limit(connection: Any, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "connect", limit)
    engine.dispose()
    try:
        yield
    finally:
        event.remove(engine, "connect", limit)
        engine.dispose()


def remove(file: Path) -> None:
    file.rename(file.with_name("away.db"))


def replace(file: Path) -> None:
    copy = file.with_name("copy.db")
    shutil.copy(file, copy)
    copy.replace(file)


def damage(file: Path) -> None:
    """Overwrites the whole file where it is, as a failing disk might."""
    file.write_bytes(b"x" * file.stat().st_size)
    file.with_name("rlcm.db-wal").write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (remove, "the database file was removed while the service was running"),
        (replace, "the database file was replaced while the service was running"),
        (damage, "the database file is damaged"),
    ],
)
def test_a_lost_database_is_named_and_questions_go_on(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    """Without keys, as on loopback: a question then needs no database."""
    with (
        listening(tmp_path, settings=Settings(state=tmp_path)) as (url, running),
        closing(Client(url, running, tmp_path)) as client,
    ):
        assert client.http.get("/readyz").status_code == 200
        if spoil is damage:
            running.context.database._engine.dispose()  # no page of it is in memory any more
        spoil(client.file)
        time.sleep(FRESH)
        not_ready = client.http.get("/readyz")
        assert (not_ready.status_code, not_ready.json()["state"]) == (503, "degraded")
        assert not_ready.json()["stage"] == said
        assert refused(client.calibrate(), "database-unavailable")["detail"] == said
        assert refused(client.http.get("/certificates"), "database-unavailable")["detail"] == said
        for path in ("/health", "/overview", "/metrics"):
            assert client.http.get(path).status_code == 200
        assert client.solve().status_code == 200
