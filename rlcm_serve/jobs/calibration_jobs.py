"""The calibration jobs of a service: posted at any time, run one after another."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from rlcm_serve.errors import DatabaseRefused, EngineDead, NotFound, NotReady
from rlcm_serve.jobs.extension import extending
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.jobs.runner import (
    PRIORITY,
    RETRY,
    JobRunner,
    check_problems,
    require_untrained_here,
)
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.solving.service import Service
from rlcm_serve.store.caller import ANYONE, Caller
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import UNFINISHED, Calibration, CalibrationRequest, JobState, Post
from rlcm_serve.store.upkeep.removal import delete_job, delete_recordings

DELETE_EVERY = 600.0
"""Most seconds between two searches for jobs that are old enough to be deleted."""
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
        delete_after: seconds after which an ended job is deleted; None keeps it.
        limits: of the process that fits.

    Attributes:
        store: the jobs in the database. Its methods block.
    """

    def __init__(
        self,
        database: Database,
        service: Service,
        certificates: CertificateStore,
        concurrency: int = 8,
        delete_after: float | None = None,
        limits: FitLimits = FitLimits(),  # noqa: B008, frozen
    ) -> None:
        self._service = service
        self._database, self._delete_after = database, delete_after
        self._deleting = asyncio.Lock()
        self._threads = database.threads
        self._runner = JobRunner(database, service, certificates, concurrency, limits)
        self.store = self._runner.jobs
        self._posted = asyncio.Event()
        self._running: tuple[str, asyncio.Task[None]] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs jobs as soon as the service is ready. At the end, unfinished jobs stay queued."""
        loops = {asyncio.create_task(self._run_jobs())}
        if self._delete_after is not None:
            loops.add(asyncio.create_task(self._delete_old(self._delete_after)))
        try:
            yield
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.wait(loops)

    async def submit(
        self,
        request: CalibrationRequest,
        problems: list[LabelledProblem],
        owner: str | None = None,
        post: Post | None = None,
    ) -> Calibration:
        """Queues a job, unless the same post has queued one already; `owner` is the key.

        While the engine starts, problems are only checked when the job starts.

        Raises:
            RequestRefused: too few problems, a group larger than declared, sizes that differ
                without a declaration, a problem that does not fit into the model's context or
                that trained the probe, or a profile that is not served.
            RequestRefused: as `extending`.
            Conflict, KeyReused, NotFound: as `CalibrationStore.create`.
        """
        if request.extends is not None:
            request = await self._threads.read(extending, self.store, request, problems)
        request = await asyncio.to_thread(request.with_group_size, problems)
        await asyncio.to_thread(request.require_enough, problems)
        with suppress(NotReady, EngineDead):
            await self._service.check_ready()
            engine = self._service.engine.under(request.profile)
            recorder = Recorder(engine, self._service.grader, priority=PRIORITY)
            await check_problems(recorder, problems)
            await require_untrained_here(self._service.engine, problems)
        id_ = f"cal_{secrets.token_hex(6)}"
        job = await self._threads.write(self.store.create, id_, request, problems, owner, post)
        self._posted.set()
        return job

    async def get(self, id_: str, caller: Caller = ANYONE) -> Calibration:
        """The job with this id, with its log.

        Raises:
            NotFound: there is no such job, or the caller may not know of it.
        """
        return self.now(await self._threads.read(self.store.get, id_, caller))

    async def watch(self, id_: str) -> AsyncIterator[Calibration]:
        """The job now and after every change, until it has ended or is deleted.

        Raises:
            NotFound: there is no such job now.
        """
        job, last = await self.get(id_), None
        while True:
            if job != last:
                yield job
                last = job
            if job.state.ended:
                return
            await asyncio.sleep(WATCH_INTERVAL)
            try:
                job = await self.get(id_)
            except NotFound:
                return

    async def delete(self, id_: str) -> Calibration:
        """Cancels an unfinished job and deletes its recordings; deletes an ended job altogether.

        A certificate that came from the job stays.

        Returns:
            The job: cancelled, or as it was before it was deleted.

        Raises:
            NotFound: there is no such job.
            Conflict: it has ended in this moment.
            DatabaseRefused: the database cannot be written; a part may be deleted.
        """
        async with self._deleting:  # of two requests for a job, one cancels and one deletes it
            job = await self.get(id_)
            if job.state.ended:
                await delete_job(self._database, job)
                return job
            async with self._runner.ending:
                await self._threads.write(self.store.cancel, id_)
            if (task := self._task_of(id_)) is not None:
                task.cancel()
                await asyncio.wait({task})
            await delete_recordings(self._database, job)
            return await self.get(id_)

    def seconds_left(self, job: Calibration) -> float | None:
        """Estimated time until everything is recorded; None if it is unknown."""
        if job.state is not JobState.RECORDING or self._task_of(job.id) is None:
            return None
        return self._runner.pace.seconds_left

    def now(self, job: Calibration) -> Calibration:
        """A job from the store, with the reason why it waits for the database, if it does."""
        trouble = self._runner.trouble
        return job if trouble is None or job.state.ended else replace(job, error=trouble)

    def _task_of(self, id_: str) -> asyncio.Task[None] | None:
        running, task = self._running or ("", None)
        return task if running == id_ else None

    async def _run_jobs(self) -> None:
        while True:
            self._posted.clear()
            try:
                job = await self._threads.read(self.store.next_unfinished)
                if job is None:
                    await self._posted.wait()
                else:
                    await self._run(job)
            except DatabaseRefused as error:
                self._runner.note_trouble(error)
                await asyncio.sleep(RETRY)

    async def _delete_old(self, after: float) -> None:
        while True:
            try:
                old = await self._threads.read(self.store.ended_before, time.time() - after)
                for id_ in old:
                    with suppress(NotFound):
                        await self.delete(id_)
                        _log.info("calibration %s is deleted, as delete_jobs_after_s asks", id_)
            except DatabaseRefused as error:
                _log.warning("old calibration jobs are not deleted for now: %s", error)
            await asyncio.sleep(min(after, DELETE_EVERY))

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
            await self._threads.write(
                self.store.move,
                job,
                UNFINISHED,
                JobState.FAILED,
                error="an unexpected error in the service; see its log",
            )
