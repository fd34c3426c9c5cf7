"""The service under attack: what its clients send, and what a watch over it finds."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from rlcm_serve.store.caller import Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from tests.attack import timed_service
from tests.served import Served, free_port, serving

KEYS = 8
LONGEST_CALLBACK = 0.05
"""Seconds of CPU time for which one callback may hold the event loop."""
LONGEST_ANSWER = 1.0
"""Seconds within which `/health` must answer, unless the idle process needs as long."""
RATIO = 20
"""How many times as long as the idle process `/health` may take."""
PAUSE = 0.02
"""Seconds between two questions of a watch."""
JSON = "application/json"
_TLS = ssl.create_default_context()
"""Unused on loopback; made once, because httpx would spend 30 ms on one for every request."""


@dataclass
class Watch:
    """What was seen during an attack: seconds of `/health`, of the idle process, and callbacks."""

    health: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    unwell: list[str] = field(default_factory=list)
    callbacks: list[tuple[float, str]] = field(default_factory=list)

    @property
    def worst(self) -> tuple[float, str]:
        """The longest callback: CPU seconds, `NOTED` if all took less, and its name."""
        return max(self.callbacks, default=(timed_service.NOTED, "all others"))

    @property
    def ratio(self) -> float:
        """The slowest `/health` in slowest answers of the idle process."""
        return max(self.health) / max(self.idle)

    def __str__(self) -> str:
        return (
            f"longest callback {self.worst[0] * 1000:.0f} ms, slowest /health "
            f"{max(self.health) * 1000:.0f} ms, {self.ratio:.1f} times that of an idle process"
        )

    def require_a_free_loop(self) -> None:
        """The target of every attack: short callbacks, and a `/health` that answers."""
        assert self.unwell == []
        seconds, name = self.worst
        assert seconds < LONGEST_CALLBACK, f"{seconds * 1000:.0f} ms of CPU time in {name}"
        slowest, idle = max(self.health), max(self.idle)
        assert slowest < max(LONGEST_ANSWER, RATIO * idle), str(self)


@dataclass
class Target:
    """A running service that asks for keys, and an idle process beside it.

    `keys` may solve; `admin` may do everything.
    """

    service: Served
    keys: list[str]
    admin: str
    idle: str
    stopwatch: Path

    def send(
        self,
        body: bytes,
        path: str = "/solve",
        key: int = 0,
        timeout: float = 60,
        **headers: str,
    ) -> httpx.Response:
        """One request with this body, on a connection of its own, with the key of this number."""
        known = {"Authorization": f"Bearer {self.keys[key % KEYS]}", "Content-Type": JSON}
        url = f"{self.service.url}{path}"
        return httpx.post(url, content=body, headers=known | headers, timeout=timeout, verify=_TLS)

    def flood(
        self, bodies: Sequence[bytes], path: str = "/solve", keys: int = KEYS, timeout: float = 60
    ) -> list[httpx.Response]:
        """The responses to bodies that are sent at the same time, with so many keys in turn."""
        with ThreadPoolExecutor(len(bodies)) as threads:
            numbers = range(len(bodies))
            sending = [
                threads.submit(self.send, bodies[at], path, at % keys, timeout) for at in numbers
            ]
            return [sent.result() for sent in sending]

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Watches the service for as long as the context lasts, and prints what it found."""
        watch, over = Watch(), threading.Event()
        seen = self.stopwatch.stat().st_size
        polls = [
            threading.Thread(target=_poll, args=(url, times, watch.unwell, over))
            for url, times in (
                (f"{self.service.url}/health", watch.health),
                (self.idle, watch.idle),
            )
        ]
        for thread in polls:
            thread.start()
        try:
            yield watch
            time.sleep(5 * PAUSE)  # for what the last request left on the loop
        finally:
            over.set()
            for thread in polls:
                thread.join()
            lines = self.stopwatch.read_text()[seen:].splitlines()
            noted = map(json.loads, lines)
            watch.callbacks = [(one["cpu"], one["name"]) for one in noted]
            sys.stdout.write(f"{watch}\n")


@contextmanager
def attacked(folder: Path, *arguments: str) -> Iterator[Target]:
    """The service with a stopwatch on its event loop, and with keys; `arguments` are its own."""
    stopwatch, idle_port = folder / "stopwatch", free_port()
    stopwatch.touch()
    solve, admin = _make_keys(folder / "state")
    program = [sys.executable, timed_service.__file__]
    idle = [sys.executable, str(Path(__file__).with_name("idle.py")), str(idle_port)]
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen(idle) as beside,
    ):
        patch.setenv(timed_service.VARIABLE, str(stopwatch))
        try:
            with serving(folder, "--auth", "on", *arguments, program=program) as service:
                url = f"http://127.0.0.1:{idle_port}/"
                yield Target(service, solve, admin, url, stopwatch)
        finally:
            beside.kill()


def _make_keys(state: Path) -> tuple[list[str], str]:
    database = Database(f"sqlite:///{state / 'rlcm.db'}")
    keys = Keys(database)
    solve = [keys.create(f"attacker {number}", [Scope.SOLVE])[0] for number in range(KEYS)]
    admin, _ = keys.create("operator", [Scope.ADMIN])
    database.close()
    return solve, admin


def _poll(url: str, times: list[float], unwell: list[str], over: threading.Event) -> None:
    """Asks until it is over, each time on a new connection; failures of `/health` are kept."""
    while not over.is_set():
        began = time.monotonic()
        try:
            response = httpx.get(url, timeout=30, verify=_TLS)
            if response.status_code != 200:
                unwell.append(f"{url}: {response.status_code}")
        except httpx.HTTPError as error:
            unwell.append(f"{url}: {error!r}")
        times.append(time.monotonic() - began)
        over.wait(PAUSE)
