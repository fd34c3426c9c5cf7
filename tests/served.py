"""A service as users start it: `rlcm serve` with the embedded model, on a free port."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from rlcm_serve.api.server.http_server import listen

QUESTION = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
SECONDS_TO_HEALTH = 120  # 4 on an idle machine; this one may be busy
SECONDS_TO_READY = 240  # 40 on an idle machine
RLCM = Path(sys.executable).with_name("rlcm")


@dataclass
class Served:
    """A running service, with the folder of its state and files of what it writes."""

    process: subprocess.Popen[bytes]
    url: str
    client: httpx.Client
    seconds_to_health: float
    seconds_to_ready: float
    state: Path
    log: Path
    output: Path

    def solve(self, **body: object) -> httpx.Response:
        """The answer to `QUESTION`, at alpha 0.1 unless the body says otherwise."""
        return self.client.post("/solve", json={"problem": QUESTION, "alpha": 0.1} | body)

    def stream(self, **body: object) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events of the same question, over a separate connection."""
        asked = {"problem": QUESTION, "alpha": 0.1, "stream": True} | body
        with httpx.stream("POST", f"{self.url}/solve", json=asked, timeout=60) as response:
            assert response.status_code == 200, response.read()
            yield from events(response.iter_lines())

    def metric(self, name: str) -> float:
        """The sum of a metric's series; there may be no series yet."""
        families = [*text_string_to_metric_families(self.client.get("/metrics").text)]
        assert name.startswith(tuple(family.name for family in families)), f"no metric is {name}"
        samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == name)

    def family(self) -> list[psutil.Process]:
        """All its child processes."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def engine_core(self) -> psutil.Process:
        """The child process in which vLLM computes."""
        (core,) = (one for one in self.family() if "EngineCore" in one.name())
        return core


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    program: Sequence[str | Path] = (RLCM,),
    seconds_to_health: float = SECONDS_TO_HEALTH,
) -> Iterator[Served]:
    """`rlcm serve` once it is ready; it is stopped at the end, even after an error.

    Args:
        folder: the working directory of the service.
        arguments: further arguments of `rlcm serve`.
        program: what runs in place of `rlcm`.
        seconds_to_health: within which `/health` must answer.
    """
    port = free_port()
    state, log, output = folder / "state", folder / "service.log", folder / "service.out"
    options = ["--port", str(port), "--state", state, "--engine-log", "engine.log"]
    options += ["--unanswered-s", "0.001"]  # tests ask one question again and again
    command = [*program, "serve", *options]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as err, output.open("wb") as out:
        process = subprocess.Popen([*command, *arguments], cwd=folder, stdout=out, stderr=err)
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            began = time.monotonic()
            wait_for(client, "/health", seconds_to_health)
            seconds = time.monotonic() - began
            wait_for(client, "/readyz", SECONDS_TO_READY)
            seconds_to_ready = time.monotonic() - began
            yield Served(process, url, client, seconds, seconds_to_ready, state, log, output)
    finally:
        process.kill()
        process.wait()


def set_traps(folder: Path) -> None:
    """Writes packages with the project's names that nothing running in `folder` may import."""
    for name in ("training", "calibration"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")


def events(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the data of every server-sent event."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def shared_memory(of: Sequence[psutil.Process]) -> set[Path]:
    """Files of shared memory that these processes have mapped, or made and named by their ids."""
    mapped = {Path(one.path) for process in of for one in process.memory_maps()}
    named = {path for process in of for path in Path("/dev/shm").glob(f"*-{process.pid}-*")}
    return {path for path in mapped | named if path.parent == Path("/dev/shm")}


def free_port() -> int:
    """A port that nothing listens on now."""
    (free,) = listen("127.0.0.1", 0)
    with free:
        return int(free.getsockname()[1])


def wait_for(client: httpx.Client, path: str, seconds: float, status: int = 200) -> None:
    """Waits until the path answers with this status."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if client.get(path).status_code == status:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{path} did not answer {status} within {seconds} s")
