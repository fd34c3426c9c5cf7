"""A service as users start it on Ray: `rlcm ray serve` with replicas of the embedded model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.served import RLCM, Served, serving
from tests.service.clients import until

SECONDS_TO_STOP = 60
SECONDS_TO_READY = 300  # 40 on an idle machine


@contextmanager
def serving_on_ray(folder: Path, *arguments: str, replicas: int = 2) -> Iterator[Served]:
    """`rlcm ray serve` once all replicas are ready; it is stopped at the end."""
    program, options = (RLCM, "ray"), ("--replicas", str(replicas), *arguments)
    # Requests wait in Ray's proxy until a replica is ready, those to /health too.
    with serving(folder, *options, program=program, seconds_to_health=SECONDS_TO_READY) as served:
        try:
            said = f"{replicas} replicas are ready"
            until(lambda: said in served.log.read_text("utf-8", "replace"), SECONDS_TO_READY)
            yield served
        finally:
            if served.process.poll() is None:
                served.process.terminate()
                served.process.wait(SECONDS_TO_STOP)


def replicas_of(served: Served) -> list[psutil.Process]:
    """The processes of its replicas."""
    return [one for one in served.family() if _line(one).startswith("ray::ServeReplica:rlcm")]


def engine_of(replica: psutil.Process) -> psutil.Process:
    """The process in which the vLLM of a replica computes."""
    (core,) = (one for one in replica.children(recursive=True) if "EngineCore" in one.name())
    return core


def until_ready(served: Served, begins: int) -> None:
    """Waits until so many replicas have become ready since the start."""
    ready = '"message": "ready"'
    until(lambda: served.log.read_text("utf-8", "replace").count(ready) >= begins, SECONDS_TO_READY)
    deadline = time.monotonic() + SECONDS_TO_READY
    while served.client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
