"""The calibration jobs of a service: posted at any time, run one after another.

Several processes may share a database. Each runs the oldest job that no other runs and that its
engine can do, and takes over what a process that died has left.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from rlcm_serve.engine.contract import EngineIdentity
from rlcm_serve.errors import (
    Conflict,
    DatabaseRefused,
    EngineDead,
    NotFound,
    NotReady,
    UnreadableJob,
)
from rlcm_serve.jobs.extension import extending
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.jobs.replacement import replacing, require_audited
from rlcm_serve.jobs.runner import (
    PRIORITY,
    READY_POLL,
    RETRY,
    JobRunner,
    check_problems,
    require_untrained_here,
)
from rlcm_serve.recording.problems import LabelledProblem, require_labels
from rlcm_serve.recording.recorder import Recorder
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.service import Service
from rlcm_serve.store.answers.references import audited_problems
from rlcm_serve.store.caller import ANYONE, Caller
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import UNFINISHED, Calibration, CalibrationRequest, JobState, Post
from rlcm_serve.store.running.leases import LEASE, Leases
from rlcm_serve.store.upkeep.removal import delete_job, delete_recordings

DELETE_EVERY = 600.0
"""Most seconds between two searches for jobs that are old enough to be deleted."""
WATCH_INTERVAL = 0.5
"""Seconds between two reads of a watched job."""
LOOK_EVERY = 2.0
"""Seconds between two searches for jobs that other processes posted or left."""
ABANDONED = 600.0
"""Seconds after which a job of another engine fails, if no process with that engine takes it."""

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
        lease: seconds after which another process may take over the job of one that died.
        abandoned: seconds for which a job of another engine waits for a process that has it.

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
        lease: float = LEASE,
        abandoned: float = ABANDONED,
    ) -> None:
        self._service, self._certificates = service, certificates
        self._database, self._delete_after = database, delete_after
        self._deleting = asyncio.Lock()
        self._threads = database.threads
        self._runner = JobRunner(database, service, certificates, concurrency, limits)
        self.store = self._runner.jobs
        self._leases, self._abandoned = Leases(database, lease), abandoned
        self._unfit: dict[str, tuple[float, str]] = {}
        """Jobs of other engines: since when they wait here, and why."""
        self._judged_for: tuple[EngineIdentity, ...] = ()
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
        problems: list[LabelledProblem] | None,
        owner: str | None = None,
        post: Post | None = None,
    ) -> Calibration:
        """Queues a job, unless the same post has queued one already; `owner` is the key.

        A repeated post is not checked again: what it names may have changed since.

        While the engine starts, problems are only checked when the job starts. Without problems, a
        job that replaces a certificate takes the audited questions since the withdrawal.

        Raises:
            RequestRefused: too few problems, a problem without a label, a group larger than
                declared, sizes that differ without a declaration, a problem that does not fit
                into the model's context or that trained the probe, or a profile that is not served.
            RequestRefused: as `extending` and `replacing`.
            Conflict, KeyReused, NotFound: as `CalibrationStore.create`.
        """
        if post is not None:
            earlier = await self._threads.read(self.store.of_post, post)
            if earlier is not None:
                return earlier
        if request.replaces is not None:
            request, profiles, setup, since = await self._threads.read(
                replacing, self._certificates, self._service, request.replaces
            )
            if problems is None:
                problems = await self._threads.read(
                    audited_problems, self._database, profiles, setup, since
                )
                require_audited(problems)
        problems = problems or []
        if request.extends is not None:
            request = await self._threads.read(extending, self.store, request, problems)
        require_labels(
            problems,
            "a job needs a label of each. With labels of a share of the problems, start with "
            "`rlcm plan --design --label-share`",
        )
        request = await asyncio.to_thread(request.with_group_size, problems)
        await asyncio.to_thread(request.require_enough, problems)
        made_for = None
        with suppress(NotReady, EngineDead):
            await self._service.check_ready()
            engine = self._service.engine.under(request.profile)
            recorder = Recorder(engine, self._service.grader, priority=PRIORITY)
            await check_problems(recorder, problems)
            await require_untrained_here(self._service.engine, problems)
            made_for = fingerprint_of(engine.identity)
        if request.extends is not None:
            made_for = (await self._threads.read(self.store.get, request.extends)).fingerprint
        id_ = f"cal_{secrets.token_hex(6)}"
        create = partial(self.store.create, made_for=made_for)
        job = await self._threads.write(create, id_, request, problems, owner, post)
        self._posted.set()
        return job

    async def get(self, id_: str, caller: Caller = ANYONE) -> Calibration:
        """The job with this id, with its log.

        Raises:
            NotFound: there is no such job, or the caller may not know of it.
        """
        return self.now(await self._threads.read(self.store.get, id_, caller))

    async def watch(
        self, id_: str, is_over: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[Calibration]:
        """The job now and after every change, until it has ended or is deleted.

        While the database cannot be read, nothing changes.

        Args:
            id_: of the job.
            is_over: whether to stop before its end; asked between two reads.

        Raises:
            NotFound: there is no such job now.
            DatabaseRefused: the database cannot be read now.
        """
        job, last = await self.get(id_), None
        while True:
            if job != last:
                yield job
                last = job
            if job.state.ended or is_over():
                return
            await asyncio.sleep(WATCH_INTERVAL)
            try:
                job = await self.get(id_)
            except NotFound:
                return
            except DatabaseRefused as error:
                _log.warning("calibration %s cannot be watched for now: %s", id_, error)

    async def delete(self, id_: str) -> Calibration:
        """Cancels an unfinished job and deletes its recordings; deletes an ended job altogether.

        A certificate that came from the job stays.

        Returns:
            The job: cancelled, or as it was before it was deleted.

        Raises:
            NotFound: there is no such job.
            Conflict: it has ended in this moment, or extends a job that is still there.
            DatabaseRefused: the database cannot be written; a part may be deleted.
        """
        async with self._deleting:  # of two requests for a job, one cancels and one deletes it
            job = await self.get(id_)
            if job.state.ended:
                await self._threads.read(self.store.require_deletable, job)
                await delete_job(self._database, job)
                return job
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
        """A job from the store, with the reason why it waits, if it does."""
        trouble = self._runner.trouble
        if job.id in self._unfit:
            trouble = self._unfit[job.id][1]
        return job if trouble is None or job.state.ended else replace(job, error=trouble)

    def _task_of(self, id_: str) -> asyncio.Task[None] | None:
        running, task = self._running or ("", None)
        return task if running == id_ else None

    async def _run_jobs(self) -> None:
        has_failed = False
        while True:
            self._posted.clear()
            try:
                job = await self._next()
                self._runner.trouble = None
                if job is not None:
                    await self._run(job)
                    continue
                has_failed = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await self._posted.wait()
            except (NotReady, EngineDead):
                await asyncio.sleep(READY_POLL)
            except DatabaseRefused as error:
                self._runner.note_trouble(error)
                await asyncio.sleep(RETRY)
            except Exception:  # jobs must not stop in silence  # noqa: BLE001
                if not has_failed:
                    _log.exception("no calibration job can be run; trying again")
                has_failed = True
                await asyncio.sleep(RETRY)

    async def _next(self) -> Calibration | None:
        """Takes the oldest job that no other process runs and that this engine can do.

        Raises:
            NotReady, EngineDead: there is a job, and the engine is not ready.
            DatabaseRefused: the database cannot be reached.
        """
        free = await self._threads.read(self._leases.free)
        self._unfit = {id_: since for id_, since in self._unfit.items() if id_ in free}
        for id_ in free:
            if self._still_waits(id_):
                continue
            with suppress(NotFound, UnreadableJob):  # deleted in the meantime, or another release's
                job = await self._threads.read(self.store.get, id_)
                if await self._is_for_us(job) and await self._threads.write(
                    self._leases.claim, job
                ):
                    return job
        return None

    def _still_waits(self, id_: str) -> bool:
        """Whether a job is known to be for another engine, and may wait for it."""
        if id_ not in self._unfit:
            return False
        if self._judged_for != self._service.guarantees.identities:  # the engine was restarted
            return False
        return time.monotonic() - self._unfit[id_][0] < self._abandoned

    async def _is_for_us(self, job: Calibration) -> bool:
        """Whether this engine can do the job, or nobody can: then it fails, with the reason."""
        if not (differences := await self._runner.differences(job)):
            return True
        why = (
            "waits for a process with the engine that it was posted to (then, now): "
            f"{'; '.join(differences)}"
        )
        if await self._threads.read(self._leases.has_busy_engine, job):
            self._unfit.pop(job.id, None)  # its turn comes, however long that takes
        since, _ = self._unfit.setdefault(job.id, (time.monotonic(), why))
        self._judged_for = self._service.guarantees.identities
        return time.monotonic() - since >= self._abandoned

    async def _keep(self, job: Calibration, task: asyncio.Task[None]) -> None:
        """Renews the lease of a running job, and stops the task once the job is not ours."""
        while True:
            await asyncio.sleep(self._leases.seconds / 3)
            with suppress(DatabaseRefused):  # the task itself says what is wrong
                if not await self._threads.write(self._leases.renew, job):
                    _log.warning("calibration %s goes on in another process, or ended", job.id)
                    task.cancel()
                    return

    async def _delete_old(self, after: float) -> None:
        while True:
            try:
                old = await self._threads.read(self.store.ended_before, time.time() - after)
                for id_ in old:
                    with suppress(NotFound, Conflict):
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
        keeping = asyncio.create_task(self._keep(job, task))
        self._running = (job.id, task)
        try:
            await asyncio.wait({task})
        finally:
            self._running = None
            keeping.cancel()
            task.cancel()  # if this loop itself was cancelled
            await asyncio.gather(task, keeping, return_exceptions=True)
            with suppress(DatabaseRefused):  # then it ends by itself
                await self._threads.write(self._leases.release, job)
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
