"""The cost of HTTP: the same questions through `/solve` and directly through the solver.

    python -m studies.serving.service_overhead [--evidence] [--smoke]

One process runs everything that `rlcm serve` runs, with the embedded model. A fixed number of
questions runs at a time, in turn through the solver and through the port (from another process), so
that other load on the machine affects both; the report has the median of the pairs' ratios.
Sampling is greedy, so that the exits are equal both ways; token counts verify this. CPU time is
that of the service's process only, without engine and client.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import uvloop

from rlcm_serve.api.app import create_app
from rlcm_serve.api.composition import build_context
from rlcm_serve.api.context import Context
from rlcm_serve.api.server.http_server import HttpServer, listen
from rlcm_serve.api.server.server import drain
from rlcm_serve.core import Question
from rlcm_serve.settings import Settings
from rlcm_serve.store.database import Database
from rlcm_serve.telemetry import logs
from studies.serving.asking import AT_A_TIME, QUESTION, Asker
from studies.serving.sampled_profile import SampledProfile
from studies.smoke import study_parser
from training.tasks.problems import Split, sample_problems

WAYS: dict[str, dict[str, object]] = {
    "/solve": {},
    "/solve, trace": {"return_trace": True},
    "/solve, streamed": {"stream": True},
    "/solve, streamed with tokens": {"stream": True, "stream_tokens": True},
}


Asking: TypeAlias = Callable[[dict[str, object]], int]
"""Asks all problems with these changes to the body; the tokens generated."""


@dataclass(frozen=True)
class Run:
    """One pass over all questions: seconds, CPU seconds of the service, tokens."""

    seconds: float
    cpu: float
    tokens: int


async def main() -> None:
    """Prints a row for each way of asking, and a profile of its CPU time."""
    parser = study_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--questions", type=int, default=256, help="of each run")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--evidence", action="store_true", help="record every answer over HTTP")
    parser.add_argument("--profile", type=int, default=15, help="lines; 0 for none")
    options = parser.parse_args()
    if options.smoke:
        options.pairs, options.questions, options.profile = 1, 4, 3
    problems = [p.question for p in sample_problems(Split.VALIDATION, options.questions, seed=9)]
    with tempfile.TemporaryDirectory() as state:
        log = Path(state) / "engine.log" if options.smoke else Path("runs/service_overhead.log")
        settings = Settings(
            state=Path(state), engine_log=log, log_format="json", evidence=options.evidence
        )
        async with serving(settings) as (context, port):
            with Asker(problems) as asker:
                await compare(context, functools.partial(asker.ask, [port]), problems, options)


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[Context, int]]:
    """Everything that `rlcm serve` runs, ready on a port; its log goes to /dev/null."""
    database = Database(settings.database_url)
    with open("/dev/null", "w") as nowhere:  # noqa: ASYNC230, PTH123
        logs.configure(settings.log_level, "json", nowhere)
        ready = asyncio.Event()
        context = build_context(
            settings, database, lambda stage: ready.set() if stage == "ready" else None
        )
        (listening,) = listen("127.0.0.1", 0)
        server = HttpServer(lambda fail: create_app(context, fail), lambda: drain(context))
        running = asyncio.create_task(server.serve([listening]))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            raise SystemExit(f"it did not start: {server.failure}")
        yield context, listening.getsockname()[1]
        server.drain()
        await running
    database.close()


async def compare(
    context: Context, ask: Asking, problems: list[str], options: argparse.Namespace
) -> None:
    """Prints the table, then the profiles."""

    async def in_process() -> int:
        return await solve_all(context, problems)

    print("| way | questions/s, solver | questions/s, HTTP | ratio, median (min to max) | ", end="")
    print("CPU ms per question, solver | HTTP | added |\n|---|---|---|---|---|---|---|")
    profiles: dict[str, SampledProfile] = {}
    for way in options.ways:

        async def over_http(way: str = way) -> int:
            return await asyncio.to_thread(ask, WAYS[way])

        pairs = [
            await pair(in_process, over_http, solver_first=turn % 2 == 0)
            for turn in range(options.pairs + 1)
        ][1:]  # the first pair warms up
        print(row(way, pairs, len(problems)), flush=True)
        if options.profile:
            with SampledProfile() as profiles[way]:
                await over_http()
    if options.profile:
        with SampledProfile() as profiles["solver"]:
            await in_process()
    for way, profile in profiles.items():
        print(f"\n{way}: {profile.busy:.1f} s of CPU in the event loop's thread")
        print(profile.table(options.profile))


async def pair(
    in_process: Callable[[], Awaitable[int]],
    over_http: Callable[[], Awaitable[int]],
    solver_first: bool,
) -> tuple[Run, Run]:
    """One run of each in the given order; returns the solver's run, then the HTTP run."""
    ways = [in_process, over_http] if solver_first else [over_http, in_process]
    runs = [await measure(way) for way in ways]
    return (runs[0], runs[1]) if solver_first else (runs[1], runs[0])


async def measure(way: Callable[[], Awaitable[int]]) -> Run:
    """Measures one pass."""
    began, cpu = time.perf_counter(), time.process_time()
    tokens = await way()
    return Run(time.perf_counter() - began, time.process_time() - cpu, tokens)


def row(way: str, pairs: list[tuple[Run, Run]], questions: int) -> str:
    """A row of the table."""
    apart = max(abs(http.tokens / solver.tokens - 1) for solver, http in pairs)
    if apart > 0.02:
        raise RuntimeError(f"{way}: the tokens differ by {apart:.1%}, so nothing comparable ran")
    ratios = [solver.seconds / http.seconds for solver, http in pairs]
    solver_ms, http_ms = (
        [1000 * run.cpu / questions for run in runs] for runs in zip(*pairs, strict=True)
    )
    added = statistics.median(b - a for a, b in zip(solver_ms, http_ms, strict=True))
    speeds = [
        statistics.median(questions / run.seconds for run in runs)
        for runs in zip(*pairs, strict=True)
    ]
    return (
        f"| {way} | {speeds[0]:.1f} | {speeds[1]:.1f} | {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}) | {statistics.median(solver_ms):.2f} | "
        f"{statistics.median(http_ms):.2f} | {added:.2f} |"
    )


async def solve_all(context: Context, problems: list[str]) -> int:
    """Solves every problem through the solver, some at a time; returns the generated tokens."""
    left, tokens = iter(problems), 0

    async def work() -> None:
        nonlocal tokens
        for problem in left:
            solution = await context.service.solver.solve(Question(problem, **QUESTION))
            tokens += solution.tokens

    await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
    return tokens


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
