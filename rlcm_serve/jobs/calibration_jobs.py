"""All calibration jobs of a service: posted at any time, run one after another."""

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
from rlcm_serve.store.job import Calibration, CalibrationRequest, JobState

RETRY = 5.0
"""Seconds until a database out of reach is tried again."""
WATCH_INTERVAL = 0.5
"""Seconds between two looks at a job that is watched."""

_log = logging.getLogger(__name__)


class CalibrationJobs:
    """Queues jobs and, while `running`, works them off; what is unfinished is taken up again.

    Args:
        database: where jobs are kept.
        service: whose engine records, with whatever it has left beside questions.
        certificates: where results go.
        concurrency: rollouts in flight.
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
        self._jobs = self._runner.jobs
        self._posted = asyncio.Event()
        self._running: tuple[str, asyncio.Task[None]] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs jobs meanwhile, as soon as the service is ready; at the end leaves them in place."""
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

        While the engine starts, problems are only checked once the job's turn has come.

        Raises:
            RequestRefused: too few problems, or one that does not fit into the model's context.
        """
        request.require_enough(problems)
        with suppress(NotReady, EngineDead):
            await self._service.check_ready()
            recorder = Recorder(self._service.engine, self._service.grader, priority=PRIORITY)
            await check_problems(recorder, problems)
        id_ = f"cal_{secrets.token_hex(6)}"
        job = await asyncio.to_thread(self._jobs.create, id_, request, problems)
        self._posted.set()
        return job

    async def get(self, id_: str) -> Calibration:
        """The job of that id, with its log.

        Raises:
            NotFound: there is none.
        """
        return await asyncio.to_thread(self._jobs.get, id_)

    async def all(self) -> list[Calibration]:
        """The latest jobs, the last one first, without their logs."""
        return await asyncio.to_thread(self._jobs.all)

    async def latest(self, jobs: int, lines: int) -> list[Calibration]:
        """The latest jobs, the last one first, each with the last lines of its log."""
        return await asyncio.to_thread(self._jobs.latest, jobs, lines)

    async def watch(self, id_: str) -> AsyncIterator[Calibration]:
        """The job now, and whenever it has got on, until it has ended.

        Raises:
            NotFound: there is none.
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

    async def traces(self, id_: str) -> bytes:
        """What a job recorded, as Parquet.

        Raises:
            NotFound: there is no such job.
            Conflict: it has not recorded everything yet, or never will.
        """
        return await asyncio.to_thread(self._jobs.traces, id_)

    async def cancel(self, id_: str) -> Calibration:
        """Ends a job before its time; its recordings are deleted.

        Raises:
            NotFound: there is no such job.
            Conflict: it has ended already.
        """
        async with self._runner.ending:
            await asyncio.to_thread(self._jobs.cancel, id_)
        if self._running is not None and self._running[0] == id_:
            task = self._running[1]
            task.cancel()
            await asyncio.wait({task})
        return await self.get(id_)

    def seconds_left(self, job: Calibration) -> float | None:
        """Until everything is recorded, at the rate of the last minutes; None if nobody knows."""
        if job.state is not JobState.RECORDING or not self._is_running(job.id):
            return None
        return self._runner.pace.seconds_left

    def count(self) -> dict[JobState, int]:
        """How many jobs are in each state."""
        return self._jobs.count()

    def _is_running(self, id_: str) -> bool:
        return self._running is not None and self._running[0] == id_

    async def _run_jobs(self) -> None:
        while True:
            self._posted.clear()
            try:
                job = await asyncio.to_thread(self._jobs.next_unfinished)
                if job is None:
                    await self._posted.wait()
                else:
                    await self._run(job)
            except DatabaseRefused:
                _log.exception("calibration jobs wait for the database")
                await asyncio.sleep(RETRY)

    async def _run(self, job: Calibration) -> None:
        """Runs a job in a task of its own, which `cancel` may end.

        Raises:
            DatabaseRefused: the database is out of reach.
        """
        task = asyncio.create_task(self._runner.run(job))
        self._running = (job.id, task)
        try:
            await asyncio.wait({task})
        finally:
            self._running = None
            task.cancel()  # if it is this loop that ends
            await asyncio.gather(task, return_exceptions=True)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DatabaseRefused):
            raise error
        if error is not None:
            _log.error("calibration %s ended by a fault", job.id, exc_info=error)
            await asyncio.to_thread(
                self._jobs.move,
                job,
                (JobState.QUEUED, JobState.RECORDING, JobState.FITTING),
                JobState.FAILED,
                error="the service made a mistake; its log says more",
            )
