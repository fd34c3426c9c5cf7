"""A service as its users start it: `rlcm serve` with the embedded model, on a port of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from rlcm_serve.http_server import listen

QUESTION = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
SECONDS_TO_HEALTH = 30
SECONDS_TO_READY = 240  # 40 on an idle machine; this one may be busy
RLCM = Path(sys.executable).with_name("rlcm")


@dataclass
class Served:
    """A running service: where it keeps its state, and what it writes to its standard error."""

    process: subprocess.Popen[bytes]
    url: str
    client: httpx.Client
    seconds_to_health: float
    state: Path
    log: Path

    def solve(self, **body: object) -> httpx.Response:
        return self.client.post("/solve", json={"problem": QUESTION, "alpha": 0.1} | body)

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Served]:
    """`rlcm serve` once it is ready; whatever becomes of it, it is gone afterwards.

    Args:
        folder: to start it in.
        arguments: further ones of `rlcm serve`.
    """
    port = _free_port()
    state, log = folder / "state", folder / "service.log"
    command = [RLCM, "serve", "--port", str(port), "--state", state, "--engine-log", "engine.log"]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as writing:
        process = subprocess.Popen([*command, *arguments], cwd=folder, stderr=writing)
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            began = time.monotonic()
            _wait_for(client, "/health", SECONDS_TO_HEALTH)
            seconds = time.monotonic() - began
            _wait_for(client, "/readyz", SECONDS_TO_READY)
            yield Served(process, url, client, seconds, state, log)
    finally:
        process.kill()
        process.wait()


def set_traps(folder: Path) -> None:
    """Packages of the project's names, which nothing that runs in `folder` may import."""
    for name in ("training", "calibration"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")


def _free_port() -> int:
    (free,) = listen("127.0.0.1", 0)
    with free:
        return int(free.getsockname()[1])


def _wait_for(client: httpx.Client, path: str, seconds: float) -> None:
    """Until the path answers 200."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if client.get(path).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{path} did not answer 200 within {seconds} s")
