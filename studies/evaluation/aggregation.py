r"""Speed of votes on rollouts, on one core: in memory, and from JSON lines to JSON lines.

    OMP_NUM_THREADS=1 python -m studies.evaluation.aggregation [--smoke]

The data are a million rollouts of 15,625 problems, 64 each, with answers from 0 to 999 and a
reference on every row, so that they are also graded. In memory, input and results are Arrow
columns. The baseline `string keys` sums confidences in a dictionary of dictionaries, row by row: it
compares answers as text, without exact sums, random ties or grading. In `decimals`, half of the
answers are written `7.0` instead of `7`. In `LaTeX`, with 100,032 rollouts, one in five is a text
of its own: a fraction, root, percentage, quantity, tuple, set, interval or name (`latex_of`).

Prints Markdown: the median of RUNS runs, with the slowest and the fastest, and the median per
second of CPU time of all processes, which other work on the machine disturbs less.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sized
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlcm_serve.aggregation import Aggregation, Rule, VoteOptions, aggregate_file, rollouts_of
from studies.smoke import study_parser

PROBLEMS, ROLLOUTS = 15_625, 64
RUNS = 7
BATCH = 65_536


def main() -> None:
    smoke = study_parser(__doc__).parse_args().smoke
    problems, runs = (100, 1) if smoke else (PROBLEMS, RUNS)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    print(f"{problems * ROLLOUTS} rollouts, {ROLLOUTS} of each problem, one core, {_processor()}\n")
    print("| | rollouts per second, median | slowest | fastest | per CPU second |")
    print("|---|---:|---:|---:|---:|", flush=True)
    together, mixed = make(problems), make(problems, scattered=True)
    report(
        "in memory: string keys", lambda: string_keys(columns), columns := as_lists(together), runs
    )
    for rule in Rule:
        options = VoteOptions(rule, grouped=True)
        report(
            f"in memory: {rule.value}, grouped", partial(vote, together, options), together, runs
        )
    report("in memory: confidence, scattered", lambda: vote(mixed, VoteOptions()), mixed, runs)
    decimals = make(problems, decimals=True)
    grouped = VoteOptions(grouped=True)
    report("in memory: confidence, decimals", lambda: vote(decimals, grouped), decimals, runs)
    latex = make(problems // 10 + 1, latex=0.2)
    report("in memory: confidence, LaTeX", lambda: vote(latex, grouped), latex, runs)
    with tempfile.TemporaryDirectory() as folder:
        measure_files(Path(folder), together, mixed, runs)


def measure_files(folder: Path, together: pa.RecordBatch, mixed: pa.RecordBatch, runs: int) -> None:
    grouped, scattered, columns = (
        folder / name for name in ("grouped.jsonl", "scattered.jsonl", "grouped.parquet")
    )
    write_lines(together, grouped)
    write_lines(mixed, scattered)
    names = ["problem_id", "answer", "confidence", "reference"]
    pq.write_table(pa.table(together.select(names)), columns)
    out = folder / "out.jsonl"
    for name, source, options, memory in (
        ("JSONL to JSONL: confidence, grouped", grouped, VoteOptions(grouped=True), 2**26),
        (
            "JSONL to JSONL: majority, grouped",
            grouped,
            VoteOptions(Rule.MAJORITY, grouped=True),
            2**26,
        ),
        ("JSONL to JSONL: confidence, scattered", scattered, VoteOptions(), 2**26),
        (
            "JSONL to JSONL: confidence, scattered, 16 MiB of memory",
            scattered,
            VoteOptions(),
            2**24,
        ),
        ("Parquet to JSONL: confidence, grouped", columns, VoteOptions(grouped=True), 2**26),
    ):
        report(
            name,
            partial(aggregate_file, source, out, options, memory=memory),
            together,
            runs,
        )


def report(name: str, run: Callable[[], object], batch: Sized, runs: int) -> None:
    """Prints a line of the table."""
    rollouts = len(batch[0] if isinstance(batch, list) else batch)
    speeds, per_cpu = [], []
    for _ in range(runs):
        began, used = time.perf_counter(), cpu_seconds()
        run()
        speeds.append(rollouts / (time.perf_counter() - began))
        per_cpu.append(rollouts / (cpu_seconds() - used))
    figures = (statistics.median(speeds), min(speeds), max(speeds), statistics.median(per_cpu))
    print(f"| {name} | {' | '.join(f'{each:,.0f}' for each in figures)} |", flush=True)


def cpu_seconds() -> float:
    """CPU time of this process and of all that have ended since it started them."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def make(
    problems: int = PROBLEMS, *, scattered: bool = False, decimals: bool = False, latex: float = 0.0
) -> pa.RecordBatch:
    """Calibrated rollouts: each is right with its stated confidence."""
    rng = np.random.default_rng(0)
    size = problems * ROLLOUTS
    order = rng.permutation(size) if scattered else np.arange(size)
    problem = order // ROLLOUTS
    truth = rng.integers(0, 1000, problems)[problem]
    confidence = rng.random(size)
    answer = np.where(rng.random(size) < confidence, truth, rng.integers(0, 1000, size))
    texts = [str(each) for each in answer]
    if decimals:
        texts = [f"{text}.0" if at % 2 else text for at, text in enumerate(texts)]
    for at in np.flatnonzero(rng.random(size) < latex).tolist():
        texts[at] = latex_of(int(answer[at]), at + 2)
    return rollouts_of(
        [f"problem-{each}" for each in problem],
        texts,
        confidence.tolist(),
        [str(each) for each in truth],
    )


def latex_of(value: int, number: int) -> str:
    """A text that no other number gives; every second one has the value."""
    return (
        rf"\frac{{{value * number}}}{{{number}}}",
        rf"{value}\sqrt{{{number}}}",
        rf"\dfrac{{{value * number}}}{{{number}}}",
        rf"\left({value}, \frac{{{number}}}{{7}}\right)",
        rf"x = {value}.{'0' * (number % 50)}",
        rf"\{{{value}, {number}\}}",
        rf"\text{{{value}.{'0' * (number % 50)}}}",
        rf"[{value}, {value + number})",
        rf"\frac{{{value * number}}}{{{number}}}\text{{ cm}}",
        rf"{value}.{number}\%",
        rf"{value * number}/{number}",
        rf"\text{{team }} {number}",
    )[number % 12]


def as_lists(batch: pa.RecordBatch) -> list[list[object]]:
    return [batch[name].to_pylist() for name in ("problem_id", "answer", "confidence")]


def string_keys(columns: list[list[object]]) -> dict[object, object]:
    tallies: dict[object, dict[object, float]] = {}
    for problem, answer, confidence in zip(*columns, strict=True):
        tally = tallies.setdefault(problem, {})
        tally[answer] = tally.get(answer, 0.0) + confidence
    return {problem: max(tally, key=tally.__getitem__) for problem, tally in tallies.items()}


def vote(batch: pa.RecordBatch, options: VoteOptions) -> int:
    with Aggregation(options, memory=2**30) as aggregation:
        found = 0
        for part in parts(batch):
            found += sum(map(len, aggregation.add(part)))
        return found + sum(map(len, aggregation.finish()))


def parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), BATCH):
        yield batch.slice(start, BATCH)


def write_lines(batch: pa.RecordBatch, path: Path) -> None:
    names = ["problem_id", "answer", "confidence", "reference"]
    with path.open("w") as file:
        for row in batch.select(names).to_pylist():
            file.write(json.dumps({**row, "confidence": round(row["confidence"], 4)}) + "\n")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
