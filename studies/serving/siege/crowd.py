"""Many connections that ask at the same time; the latency of `/health` beside an idle process."""

from __future__ import annotations

import asyncio
import http.client
import multiprocessing
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

from studies.serving.ports import free_port
from studies.serving.siege.results import Results
from studies.serving.siege.service import Siege, besieged
from studies.serving.siege.wire import NoStatus, Wire, post_bytes
from training.tasks.problems import Split, sample_problems

LIMIT = 330.0
"""Seconds within which each response must have ended; `timeout_s` is 300."""
PAUSE = 0.05
"""Seconds between two polls."""
_IDLE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Row:
    """Figures of one crowd: statuses of its requests, milliseconds of the polls."""

    connections: int
    statuses: dict[str, int]
    polls: int
    health_ms: dict[str, float]
    idle_ms: dict[str, float]
    ratio: dict[str, float]


def run(results: Results, crowds: Sequence[int], seconds: float) -> bool:
    """Lets each crowd ask, stores and prints its figures; returns whether all got a status."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    rows = []
    with besieged() as siege, idle_process() as idle:
        for connections in (0, *crowds):
            rows.append(_measure(siege, idle, connections, seconds))
            results.save("crowd", {"seconds": seconds, "rows": [asdict(one) for one in rows]})
            sys.stderr.write(f"{rows[-1]}\n")
    results.show(table(rows))
    return not any(set(row.statuses) - {"200", "429", "503", "504"} for row in rows)


def _measure(siege: Siege, idle: int, connections: int, seconds: float) -> Row:
    pipe, other = multiprocessing.Pipe()
    ports = (siege.port, idle)
    poller = multiprocessing.get_context("spawn").Process(target=poll, args=(other, ports))
    poller.start()
    pipe.recv()  # it has begun
    statuses = asyncio.run(_ask_all(siege, connections, seconds))
    pipe.send(None)
    health, control = pipe.recv()
    poller.join()
    found, beside = _figures(health), _figures(control)
    ratio = {name: round(value / beside[name], 1) for name, value in found.items()}
    return Row(connections, dict(statuses), len(health), found, beside, ratio)


def _figures(seconds: list[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum, in milliseconds."""
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[98]
    values = {"median": statistics.median(seconds), "p99": p99, "max": max(seconds)}
    return {name: round(1000 * value, 1) for name, value in values.items()}


async def _ask_all(siege: Siege, connections: int, seconds: float) -> Counter[str]:
    """All connections ask until the time is over, then wait for their last response."""
    statuses, until = Counter[str](), time.monotonic() + seconds
    problems = [one.question for one in sample_problems(Split.VALIDATION, 200, seed=3)]

    async def ask(at: int) -> None:
        await asyncio.sleep(0.5 * at / connections)
        body = {"problem": problems[at % len(problems)], "alpha": 0.1}
        request, wire = post_bytes("/solve", siege.bearer(), body), Wire(siege.port)
        while time.monotonic() < until:
            try:
                answer = await wire.ask(request, LIMIT)
            except (NoStatus, OSError) as error:  # TimeoutError is an OSError
                statuses[type(error).__name__] += 1
                wire.hang_up()
                continue
            statuses[str(answer.status)] += 1
            wait = float(answer.headers.get("retry-after", 0))
            await asyncio.sleep(min(wait, max(until - time.monotonic(), 0)))
        wire.hang_up()

    asking = [ask(at) for at in range(connections)]
    await asyncio.gather(asyncio.sleep(seconds), *asking)
    return statuses


def poll(pipe: Connection, ports: tuple[int, ...]) -> None:
    """Asks each port in turn, on new connections, until told to end; sends the seconds back."""
    times: list[list[float]] = [[] for _ in ports]
    pipe.send("begun")
    while not pipe.poll(PAUSE):
        for port, seconds in zip(ports, times, strict=True):
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/health")
            if connection.getresponse().status != 200:
                raise RuntimeError(f"/health at port {port} is not 200")
            connection.close()
            seconds.append(time.monotonic() - began)
    pipe.send(times)


@contextmanager
def idle_process() -> Iterator[int]:
    """The port of a process that answers and does nothing else: its latency is the machine's."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_idle, args=(port,), daemon=True)
    process.start()
    time.sleep(3)
    try:
        yield port
    finally:
        process.kill()
        process.join()


def _idle(port: int) -> None:
    asyncio.run(_serve_idle(port))


async def _serve_idle(port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_IDLE)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


def table(rows: list[Row]) -> Iterator[str]:
    """The lines of a Markdown table: a row per crowd; median, 99th percentile and maximum."""
    yield "| connections | responses | polls | `/health`, ms | idle process, ms | ratio |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        said = ", ".join(f"{count} x {name}" for name, count in sorted(row.statuses.items()))
        cells = [_cell(row.health_ms), _cell(row.idle_ms), _cell(row.ratio)]
        yield f"| {row.connections} | {said} | {row.polls} | {' | '.join(cells)} |"


def _cell(figures: dict[str, Any]) -> str:
    return " / ".join(str(value) for value in figures.values())
