"""A long mixed load: memory, descriptors, threads and shared memory at its start and its end."""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from studies.serving import load
from studies.serving.siege import fuzz
from studies.serving.siege.results import Results
from studies.serving.siege.service import ENGINE, Siege, besieged

CLIENTS = 8
FUZZED_PER_SECOND = 4.0
SHARED = "/dev/shm/"
OUT_OF_TIME = re.compile("out[-_]of[-_]time")
"""In what a client got: a status like any other, since the service has 15 s for a question here."""
LEFT_ALONE = frozenset(f"POST /certificates/{{id}}/{act}" for act in ("activate", "deactivate"))
"""Other requests are to be answered under the same certificates all the time."""


@dataclass(frozen=True)
class Sample:
    """Resources of all processes of the service: MiB, counts; minutes since the warm-up."""

    minutes: float
    service_mib: float
    engine_mib: float
    others_mib: float
    descriptors: int
    threads: int
    shared_mib: float
    processes: int

    @classmethod
    def of(cls, siege: Siege, since: float) -> Sample:
        """Measures now."""
        service = psutil.Process(siege.process.pid)
        engine = {one.pid for one in siege.family(ENGINE)}
        memory = [0.0, 0.0, 0.0]  # service, engine, others
        descriptors, threads, shared = 0, 0, dict[str, int]()
        family = [service, *siege.family()]
        for one in family:
            with suppress(psutil.NoSuchProcess):
                kind = 0 if one is service else 1 if one.pid in engine else 2
                memory[kind] += one.memory_info().rss / 2**20
                descriptors += one.num_fds()
                threads += one.num_threads()
                for mapped in one.memory_maps(grouped=False):
                    if mapped.path.startswith(SHARED):
                        size = int(mapped.size) if hasattr(mapped, "size") else mapped.rss
                        shared[mapped.path] = shared.get(mapped.path, 0) + size
        total = sum(shared.values()) / 2**20
        minutes, (own, of_engine, others) = (time.monotonic() - since) / 60, memory
        return cls(minutes, own, of_engine, others, descriptors, threads, total, len(family))


def run(results: Results, minutes: float, seed: int, *, warm_up: float, every: float) -> bool:
    """Loads the service, stores each sample, prints a table; returns whether nothing was lost.

    Args:
        results: where the samples go.
        minutes: after the warm-up.
        seed: of the load.
        warm_up: seconds of load before the first sample.
        every: seconds between two samples.
    """
    with besieged(*fuzz.ARGUMENTS[2:]) as siege:
        return asyncio.run(_soak(siege, results, minutes, seed, warm_up, every))


async def _soak(
    siege: Siege, results: Results, minutes: float, seed: int, warm_up: float, every: float
) -> bool:
    fuzzed, samples = fuzz.Tally(), list[Sample]()
    seconds = warm_up + 60 * minutes
    loading = asyncio.create_task(
        load.load(siege.url, CLIENTS, seconds, seed, headers=siege.bearer())
    )
    numbers = range(int(seconds * FUZZED_PER_SECOND))
    firing = asyncio.create_task(
        fuzz.fire(
            siege,
            seed,
            numbers,
            fuzzed,
            at_a_time=1,
            pause=1 / FUZZED_PER_SECOND,
            without=LEFT_ALONE,
        )
    )
    await asyncio.sleep(warm_up)
    began = time.monotonic()
    while (left := began + 60 * minutes - time.monotonic()) > 0 or len(samples) < 2:
        samples.append(await asyncio.to_thread(Sample.of, siege, began))
        sys.stderr.write(f"{samples[-1]}\n")
        results.save("soak", {"samples": [asdict(one) for one in samples]})
        await asyncio.sleep(min(every, max(left, 0.1)))
    samples.append(await asyncio.to_thread(Sample.of, siege, began))
    tally = await loading
    firing.cancel()
    with suppress(asyncio.CancelledError):
        await firing
    late = [one for one in tally.lost if OUT_OF_TIME.search(one)]
    lost = [one for one in tally.lost if one not in late]
    counts = {
        "answered": tally.answered.total(),
        "out of time": len(late),
        "left": tally.left.total(),
        "lost": lost,
        "fuzzed": sum(found.total() for found in fuzzed.routes.values()),
        "faults": fuzzed.faults,
    }
    figures = {"requests": counts, "slopes_per_hour": slopes(samples)}
    results.save("soak", figures | {"samples": [asdict(one) for one in samples]})
    results.show(table(samples, figures))
    return not (lost or fuzzed.faults or siege.errors())


def slopes(samples: list[Sample]) -> dict[str, float]:
    """The least-squares slope of each figure, per hour."""
    hours = [one.minutes / 60 for one in samples]
    names = [name for name in asdict(samples[0]) if name != "minutes"]
    return {
        name: round(statistics.linear_regression(hours, [getattr(s, name) for s in samples])[0], 2)
        for name in names
    }


def table(samples: list[Sample], figures: dict[str, Any]) -> Iterator[str]:
    """The lines of a Markdown table: a row per resource."""
    first, last = asdict(samples[0]), asdict(samples[-1])
    yield f"| | at the start | after {last['minutes']:.0f} minutes | slope per hour |"
    yield "|---|---|---|---|"
    for name, slope in figures["slopes_per_hour"].items():
        yield f"| {name} | {first[name]:.0f} | {last[name]:.0f} | {slope:+.1f} |"
    yield ""
    yield f"{figures['requests']}"
