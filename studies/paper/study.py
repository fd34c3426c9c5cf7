"""All runs of the paper, or some, a few at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from rich.console import Console

from studies.paper.runs import PaperRun
from studies.paper.stages import Running, Study
from training.errors import TrainingRefused


def carry_out(study: Study, runs: Sequence[PaperRun], jobs: int, console: Console) -> None:
    """Does what is missing. What fails is told at the end, and hinders no other.

    Raises:
        TrainingRefused: one or more failed; the message says which and why.
    """
    missing = [run for run in runs if not study.is_done(run)]
    console.print(f"{len(runs) - len(missing)} of {len(runs)} runs are done")
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        under_way = {pool.submit(_finish, study, run, console): run for run in missing}
        try:
            for ended in as_completed(under_way):
                if error := ended.exception():
                    failed.append(f"{under_way[ended].name}: {error!r}")
                    console.print(f"{under_way[ended].name} failed", style="red")
        finally:
            pool.shutdown(cancel_futures=True)
    if failed:
        raise TrainingRefused("; ".join(failed))


def _finish(study: Study, run: PaperRun, console: Console) -> None:
    began = time.monotonic()
    console.print(f"{run.name} begins; its logs are in {study.out}")
    path = Running(study, run).finish()
    console.print(f"{run.name} ended after {(time.monotonic() - began) / 60:.0f} min: {path}")
