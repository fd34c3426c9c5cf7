"""The calibration jobs of a service: posted at any time, run one after another."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from rlcm_serve.errors import DatabaseRefused, EngineDead, NotReady
from rlcm_serve.jobs.runner import PRIORITY, JobRunner, check_problems
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.solving.service import Service
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import UNFINISHED, Calibration, CalibrationRequest, JobState

RETRY = 5.0
"""Seconds until an unreachable database is tried again."""
WATCH_INTERVAL = 0.5
"""Seconds between two reads of a watched job."""

_log = logging.getLogger(__name__)


class CalibrationJobs:
    """Queues jobs and, while `running`, runs them; an unfinished job is resumed after a restart.

    Args:
        database: keeps the jobs.
        service: its engine records with the capacity that questions leave.
        certificates: receives the results.
        concurrency: rollouts in flight.

    Attributes:
        store: the jobs in the database. Its methods block.
    """

    def __init__(
        self,
        database: Database,
        service: Service,
        certificates: CertificateStore,
        concurrency: int = 8,
    ) -> None:
        self._service = service
        self._runner = JobRunner(database, service, certificates, concurrency)
        self.store = self._runner.jobs
        self._posted = asyncio.Event()
        self._running: tuple[str, asyncio.Task[None]] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs jobs as soon as the service is ready. At the end, unfinished jobs stay queued."""
        loop = asyncio.create_task(self._run_jobs())
        try:
            yield
        finally:
            loop.cancel()
            await asyncio.wait({loop})

    async def submit(
        self, request: CalibrationRequest, problems: list[LabelledProblem]
    ) -> Calibration:
        """Queues a job.

        While the engine starts, problems are only checked when the job starts.

        Raises:
            RequestRefused: too few problems, or one that does not fit into the model's context.
        """
        request.require_enough(problems)
        with suppress(NotReady, EngineDead):
            await self._service.check_ready()
            recorder = Recorder(self._service.engine, self._service.grader, priority=PRIORITY)
            await check_problems(recorder, problems)
        id_ = f"cal_{secrets.token_hex(6)}"
        job = await asyncio.to_thread(self.store.create, id_, request, problems)
        self._posted.set()
        return job

    async def get(self, id_: str) -> Calibration:
        """The job with this id, with its log.

        Raises:
            NotFound: there is no such job.
        """
        return await asyncio.to_thread(self.store.get, id_)

    async def watch(self, id_: str) -> AsyncIterator[Calibration]:
        """The job now and after every change, until it has ended.

        Raises:
            NotFound: there is no such job.
        """
        last = None
        while True:
            job = await self.get(id_)
            if job != last:
                yield job
                last = job
            if job.state.ended:
                return
            await asyncio.sleep(WATCH_INTERVAL)

    async def cancel(self, id_: str) -> Calibration:
        """Cancels a job and deletes its recordings.

        Raises:
            NotFound: there is no such job.
            Conflict: it has ended already.
        """
        async with self._runner.ending:
            await asyncio.to_thread(self.store.cancel, id_)
        if (task := self._task_of(id_)) is not None:
            task.cancel()
            await asyncio.wait({task})
        return await self.get(id_)

    def seconds_left(self, job: Calibration) -> float | None:
        """Estimated time until everything is recorded; None if it is unknown."""
        if job.state is not JobState.RECORDING or self._task_of(job.id) is None:
            return None
        return self._runner.pace.seconds_left

    def _task_of(self, id_: str) -> asyncio.Task[None] | None:
        running, task = self._running or ("", None)
        return task if running == id_ else None

    async def _run_jobs(self) -> None:
        while True:
            self._posted.clear()
            try:
                job = await asyncio.to_thread(self.store.next_unfinished)
                if job is None:
                    await self._posted.wait()
                else:
                    await self._run(job)
            except DatabaseRefused:
                _log.exception("calibration jobs wait until the database can be reached")
                await asyncio.sleep(RETRY)

    async def _run(self, job: Calibration) -> None:
        """Runs a job in its own task, so that `cancel` can end it.

        Raises:
            DatabaseRefused: the database cannot be reached.
        """
        task = asyncio.create_task(self._runner.run(job))
        self._running = (job.id, task)
        try:
            await asyncio.wait({task})
        finally:
            self._running = None
            task.cancel()  # if this loop itself was cancelled
            await asyncio.gather(task, return_exceptions=True)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DatabaseRefused):
            raise error
        if error is not None:
            _log.error("calibration %s failed with an unexpected error", job.id, exc_info=error)
            await asyncio.to_thread(
                self.store.move,
                job,
                UNFINISHED,
                JobState.FAILED,
                error="an unexpected error in the service; see its log",
            )
