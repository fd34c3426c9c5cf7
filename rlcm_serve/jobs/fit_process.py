"""Runs the process that fits and recomputes certificates, within limits."""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rlcm_serve.errors import RequestRefused, StorageFull, WorkerFailed
from rlcm_serve.jobs import fit_worker as worker
from rlcm_serve.settings import Settings
from rlcm_serve.store.connection.faults import FULL, storing

_ATTEMPTS = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FitLimits:
    """What one process may use.

    Attributes:
        memory: bytes of private memory (RLIMIT_DATA); has no effect on systems other than Linux.
        seconds: time from its start to its end.
        rows: readings in uploaded traces.
    """

    memory: int = 8 * 2**30
    seconds: float = 3600.0
    rows: int = 6_000_000

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits in the settings."""
        return cls(settings.fit_memory_bytes, settings.fit_timeout_s, settings.max_trace_rows)


async def run_worker(
    command: str, folder: Path, limits: FitLimits, field: str, write: Callable[[], None]
) -> str | None:
    """Runs a command of `fit_worker`; if its process is killed, runs it a second time.

    The process starts before anything is written, so that it removes the folder if the service is
    killed.

    Args:
        command: of the worker.
        folder: its input and output.
        limits: of the process.
        field: the part of the request that is at fault if a limit is reached.
        write: writes the input.

    Returns:
        Why the worker refused its input; None if it did not.

    Raises:
        RequestRefused: the process reached a limit.
        WorkerFailed: the process was killed twice, or ended without a result.
        StorageFull: the disk has no space for its files.
    """
    inputs = write
    for _ in range(_ATTEMPTS):
        try:
            async with asyncio.timeout(limits.seconds):
                status = await _run(command, folder, limits, inputs)
        except TimeoutError as error:
            raise RequestRefused(
                field,
                f"computing the certificate takes more than {limits.seconds:g} s: give fewer "
                "problems or rollouts, or raise fit_timeout_s",
            ) from error
        if status == worker.OUT_OF_MEMORY:
            raise RequestRefused(
                field,
                f"computing the certificate needs more than {limits.memory} bytes of memory: give "
                "fewer problems or rollouts, or raise fit_memory_bytes",
            )
        if status == worker.FULL:
            raise StorageFull(f"{FULL.cause}, in {folder.parent}: {FULL.remedy}", FULL.cause)
        if status == worker.REFUSED:
            return (folder / worker.ERROR).read_text("utf-8")
        if status == 0:
            return None
        _log.warning("the process that fits certificates ended with status %d", status)
        if status > 0:  # an error that would come again; its output is in the log
            break
        inputs = _nothing
    raise WorkerFailed(
        f"the process that fits certificates ended with status {status}; see the service's log, "
        "and try again"
    )


def _nothing() -> None:
    """The input of the first attempt is still there."""


async def _run(command: str, folder: Path, limits: FitLimits, write: Callable[[], None]) -> int:
    # -P: modules in the working directory must not replace installed ones.
    arguments = (command, str(folder), str(limits.memory), str(limits.rows))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", worker.__name__, *arguments, stdin=PIPE
    )
    try:
        with storing():
            await asyncio.to_thread(write)
        _tell(process)
        return await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _tell(process: Process) -> None:
    if process.stdin is not None:
        with suppress(RuntimeError, ConnectionError):  # it has ended; its status says why
            process.stdin.write(worker.GO)
