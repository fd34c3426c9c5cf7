"""The cost of Ray: the same two replicas asked through Ray's proxy and directly, in turn.

    make .ray/.installed
    PYTHONPATH=.ray:. python -m studies.serving.ray_overhead [--smoke]

Each replica also listens on a port of its own. One client process sends the same questions, some
at a time: through Ray's proxy, or to the two ports in equal shares. The pairs are interleaved, so
that other load on the machine affects both ways. Sampling is greedy, so that the work is equal;
token counts verify this. CPU time is that of Ray's proxy and of the replicas' processes, without
engines and client.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from ray import serve

from rlcm_serve.api.server.http_server import HttpServer, listen
from rlcm_serve.ray.cluster import ENVIRONMENT, cluster
from rlcm_serve.ray.replica import NAME, Replica, application
from rlcm_serve.ray.scale import Scale
from rlcm_serve.settings import Settings
from studies.serving.asking import Asker
from studies.serving.ports import free_port
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

WAYS: dict[str, dict[str, object]] = {
    "/solve": {},
    "/solve, 4 samples": {"n": 4},
    "/solve, streamed": {"stream": True},
}
REPLICAS = 2


class Reachable(Replica):
    """A replica that also listens on a port of its own, and leaves it in the state folder."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._ports = settings.state

    def __serve_build_asgi_app__(self) -> Callable[..., Any]:
        app = super().__serve_build_asgi_app__()

        async def without_lifespan(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "lifespan":
                await app(scope, receive, send)
                return
            for step in ("startup", "shutdown"):  # Ray runs the application's own
                await receive()
                await send({"type": f"lifespan.{step}.complete"})

        async def at_once() -> None: ...

        (listening,) = listen("127.0.0.1", 0)
        server = HttpServer(lambda fail: without_lifespan, at_once)
        self._serving = asyncio.create_task(server.serve([listening]))
        port = str(listening.getsockname()[1])
        (self._ports / f"{os.getpid()}.port").write_text(port)
        return app


@dataclass(frozen=True)
class Run:
    """One pass over all questions: seconds, CPU seconds, tokens."""

    seconds: float
    cpu: float
    tokens: int


def main() -> None:
    """Prints a row for each way of asking."""
    parser = study_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--questions", type=int, default=256, help="of each run")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    options = parser.parse_args()
    if options.smoke:
        options.pairs, options.questions = 1, 8
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        settings = Settings(
            state=state, engine_log=state / "engine.log", port=free_port(), log_level="error"
        )
        with cluster(settings):
            serve.run(application(settings, Scale(REPLICAS), Reachable), name=NAME)
            compare(settings, options)


def compare(settings: Settings, options: argparse.Namespace) -> None:
    """Measures both ways in turn, and prints the table."""
    found = [*settings.state.glob("*.port")]
    ports = [int(each.read_text()) for each in found]
    processes = [psutil.Process(int(each.stem)) for each in found]
    ours = psutil.Process().children(recursive=True)
    processes += [each for each in ours if each.name().startswith("ray::ProxyA")]
    if (len(ports), len(processes)) != (REPLICAS, REPLICAS + 1):
        raise RuntimeError(f"{len(ports)} replicas and {len(processes)} processes were found")
    problems = [p.question for p in sample_problems(Split.VALIDATION, options.questions, seed=9)]
    print("| way | questions/s, direct | through Ray | ratio, median (min to max) | ", end="")
    print("CPU ms per question, direct | through Ray |\n|---|---|---|---|---|---|")
    with Asker(problems) as asker:
        for way in options.ways:
            pairs = []
            for turn in range(options.pairs + 1):
                runs = {
                    through: measure(asker, [settings.port] if through else ports, way, processes)
                    for through in ((False, True) if turn % 2 else (True, False))
                }
                pairs.append((runs[False], runs[True]))
            print(row(way, pairs[1:], options.questions), flush=True)  # the first pair warms up


def measure(
    asker: Asker, ports: Sequence[int], way: str, processes: Sequence[psutil.Process]
) -> Run:
    """Measures one pass."""
    began, cpu = time.perf_counter(), cpu_of(processes)
    tokens = asker.ask(ports, WAYS[way])
    return Run(time.perf_counter() - began, cpu_of(processes) - cpu, tokens)


def cpu_of(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def row(way: str, pairs: list[tuple[Run, Run]], questions: int) -> str:
    """A row of the table."""
    apart = max(abs(ray.tokens / direct.tokens - 1) for direct, ray in pairs)
    if apart > 0.02:
        raise RuntimeError(f"{way}: the tokens differ by {apart:.1%}, so nothing comparable ran")
    ratios = [direct.seconds / ray.seconds for direct, ray in pairs]
    sides = [*zip(*pairs, strict=True)]
    speeds = [statistics.median(questions / run.seconds for run in side) for side in sides]
    cpu = [statistics.median(1000 * run.cpu / questions for run in side) for side in sides]
    return (
        f"| {way} | {speeds[0]:.1f} | {speeds[1]:.1f} | {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}) | {cpu[0]:.2f} | {cpu[1]:.2f} |"
    )


if __name__ == "__main__":
    main()
