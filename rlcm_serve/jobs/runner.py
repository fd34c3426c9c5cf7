"""Runs one calibration job to its end: record, fit, activate."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import ParamSpec, TypeVar

from calibration import Certificate, CertifiedLevel
from calibration.errors import CalibrationError
from rlcm_serve.answers.grader import BACKGROUND, AnswerGrader
from rlcm_serve.engine.contract import ReasoningEngine
from rlcm_serve.errors import (
    CertificateMismatch,
    Conflict,
    DatabaseRefused,
    EngineBusy,
    EngineDead,
    NotReady,
    NotRestoring,
    RequestRefused,
    RlcmError,
    SignatureRefused,
)
from rlcm_serve.jobs.fit_process import FitLimits
from rlcm_serve.jobs.fitting import Extended, Fitted, fit
from rlcm_serve.jobs.pace import Pace
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.recorder import Recorder, record_missing
from rlcm_serve.recording.trained import require_untrained
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.solving.service import Service
from rlcm_serve.store.activation import activate
from rlcm_serve.store.calibrations import CalibrationStore
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.evidence import JOB
from rlcm_serve.store.job import Calibration, JobState
from rlcm_serve.store.running.recording_rows import RecordingRows

P = ParamSpec("P")
Result = TypeVar("Result")

PRIORITY = 1
"""Lower than any question's: the engine works on a job when no question waits."""
RETRY = 5.0
"""Seconds until an unusable database is tried again."""
READY_POLL = 0.5
"""Seconds between two checks whether the engine is ready."""
MAX_DEATHS = 3
"""A job fails after so many deaths of the engine without a rollout finished in between."""
_LOG_EVERY = 0.1
_CHECKED_AT_ONCE = 64
_log = logging.getLogger(__name__)


class JobRunner:
    """Runs jobs, one at a time.

    Args:
        concurrency: rollouts in flight.
        limits: of the process that fits.
    """

    def __init__(
        self,
        database: Database,
        service: Service,
        certificates: CertificateStore,
        concurrency: int,
        limits: FitLimits,
    ) -> None:
        self.jobs = CalibrationStore(database)
        self.pace = Pace()
        self.trouble: str | None = None
        """Why the running job waits for the database; None if it does not."""
        self._logging = asyncio.Lock()  # keeps the log in order
        self._database, self._service = database, service
        self._threads = database.threads
        self._certificates, self._concurrency = certificates, concurrency
        self._limits = limits

    async def run(self, job: Calibration) -> None:
        """Runs a job until it is done or has failed, or another process moves it on.

        Raises:
            DatabaseRefused: the database cannot be reached; the job keeps its state.
        """
        self.pace = Pace()
        try:
            if job.state is not JobState.FITTING:
                await self._record(job)
            await self._fit(job)
        except DatabaseRefused:
            raise
        except Conflict as error:  # its state is another process's by now
            _log.warning("%s: another process goes on with it, or cancelled or deleted it", error)
        except (RlcmError, CalibrationError) as error:
            with suppress(Conflict):  # deleted in the meantime
                await self._fail(job, error)

    async def _record(self, job: Calibration) -> None:
        begun = job.state is JobState.RECORDING
        await self._move_on(job, job.state, JobState.RECORDING)
        await self._log(job, f"resumed at {job.done} of {job.total}" if begun else "started")
        problems = await self._threads.read(self.jobs.problems, job)
        rows = RecordingRows(self._database, job, problems)
        deaths, finished = 0, job.done
        await self._until_ready()
        if warning := await require_untrained_here(self._service.engine, problems):
            await self._log(job, f"warning: {warning}")
        while True:
            try:
                await self._record_missing(job, problems, rows)
                break
            except (EngineBusy, EngineDead, NotReady) as error:
                done = len(await self._threads.read(rows.keys))
                if done > finished:
                    deaths, finished = 0, done
                deaths += not isinstance(error, EngineBusy)
                if deaths == MAX_DEATHS:
                    raise EngineDead(
                        f"the engine died {deaths} times without finishing a rollout; the last "
                        f"error: {error}"
                    ) from error
                await self._log(job, f"waiting for the engine, {done} of {job.total}: {error}")
                await asyncio.sleep(READY_POLL)
                await self._until_ready()
        await self._log(job, f"{job.total} of {job.total} rollouts recorded")
        await self._move_on(job, JobState.RECORDING, JobState.FITTING)

    async def _record_missing(
        self, job: Calibration, problems: list[LabelledProblem], rows: RecordingRows
    ) -> None:
        # Not the grader of live votes, which would wait for a job's comparisons.
        with AnswerGrader(niceness=BACKGROUND) as grader:
            await self._record_with(grader, job, problems, rows)

    async def _record_with(
        self,
        grader: AnswerGrader,
        job: Calibration,
        problems: list[LabelledProblem],
        rows: RecordingRows,
    ) -> None:
        await self._require_same_engine(job)
        engine = self._service.engine.under(job.request.profile)
        recorder = Recorder(engine, grader, priority=PRIORITY)
        await check_problems(recorder, problems)
        step = math.ceil(job.total * _LOG_EVERY)
        logging: set[asyncio.Task[None]] = set()

        def progress(done: int, total: int) -> None:
            self.pace.note(done, total)
            if done % step == 0 and 0 < done < total:
                task = asyncio.create_task(self._log(job, f"{done} of {total} rollouts recorded"))
                logging.add(task)
                task.add_done_callback(logging.discard)

        try:
            await record_missing(
                recorder,
                problems,
                job.request.rollouts,
                rows,
                progress,
                self._concurrency,
                self._patiently,
            )
        finally:
            await asyncio.gather(*logging, return_exceptions=True)

    async def _until_ready(self) -> None:
        while True:
            try:
                return await self._service.check_ready()
            except (NotReady, EngineDead):
                await asyncio.sleep(READY_POLL)

    async def differences(self, job: Calibration) -> list[str]:
        """How this engine differs from the one that the job is for; empty if it does not.

        Raises:
            NotReady, EngineDead: the engine is not ready, so nothing is known of it.
        """
        await self._service.check_ready()
        try:
            here = fingerprint_of(self._service.engine.under(job.request.profile).identity)
        except RequestRefused as error:
            return [str(error)]
        return [] if job.fingerprint is None else list(job.fingerprint.differences(here))

    async def _require_same_engine(self, job: Calibration) -> None:
        """Raises CertificateMismatch if the job's recordings come from another engine or grader."""
        here = fingerprint_of(self._service.engine.under(job.request.profile).identity)
        begun_with = await self._threads.write(self.jobs.made_with, job, here)
        if differences := begun_with.differences(here):
            raise CertificateMismatch(
                "this job was posted to another engine (then, now): "
                f"{'; '.join(differences)}. Post the problems again, to this engine or to the "
                "earlier one"
            )

    async def _fit(self, job: Calibration) -> None:
        await self._log(job, "fitting")
        made_with = (await self._threads.read(self.jobs.get, job.id)).fingerprint
        if made_with is None:
            raise RuntimeError(f"calibration {job.id} has no fingerprint, so no recordings")
        created = datetime.fromtimestamp(job.created, UTC).date().isoformat()
        recordings = self.jobs.recordings(job)
        fitted = await fit(
            recordings, made_with, job.request, created, self._limits, await self._extended(job)
        )
        await self._patiently(self.jobs.keep_traces, job, fitted.traces)
        if not fitted.made:
            raise RequestRefused("data", f"no certificate could be fitted: {fitted.refusal}")
        for certificate, report in fitted.made:
            if report is None:
                missing = f"the {_named(certificate)} has no report data; see the service's log"
                await self._log(job, missing)
        if job.request.activate:
            await self._until_ready()
        await self._finish(job, fitted)

    async def _extended(self, job: Calibration) -> Extended | None:
        """What the job adds problems to; None if it does not.

        Raises:
            NotFound: it was deleted in the meantime.
        """
        if job.request.extends is None:
            return None
        earlier = await self._threads.read(self.jobs.get, job.request.extends)
        return Extended(
            await self._threads.read(self._certificates.get, str(earlier.certificate)),
            await self._threads.read(self.jobs.traces, earlier.id),
        )

    async def _finish(self, job: Calibration, fitted: Fitted) -> None:
        """Stores and activates the certificates. Repeating it after a kill changes nothing.

        Raises:
            Conflict: another process has cancelled the job.
        """
        await self._move_on(job, JobState.FITTING, JobState.FITTING)
        add, origin = self._certificates.add, f"{JOB}{job.id}"
        made = [certificate for certificate, _ in fitted.made]
        for certificate, report in fitted.made:
            await self._patiently(add, certificate, origin, report, recomputed=True)
            for line in _verdicts(certificate):
                await self._log(job, line)
        of_kinds = {one.about: one.id for one in made if one.about is not None}
        if of_kinds:
            await self._patiently(self.jobs.keep_of_kinds, job, of_kinds)
        if not (job.request.activate and await self._activate(job, made)):
            await self._move_on(job, JobState.FITTING, JobState.DONE, certificate=made[0].id)

    async def _activate(self, job: Calibration, made: Sequence[Certificate]) -> bool:
        """Activates all certificates and ends the job, if any certificate has a certified level.

        One transaction does both, so a job that is cancelled has activated nothing.
        A kind whose own levels all failed needs its certificate, too: without it, its questions
        would be served under the one of all kinds.

        Returns:
            Whether it did; the log says why not.

        Raises:
            Conflict: another process has cancelled the job.
        """
        if not any(level.certified for one in made for level in one.levels):
            await self._log(job, "not activated: no level is certified")
            return False
        lines = [f"{_named(one)} {one.id} is active" for one in made]
        finish = partial(self.jobs.finish, job=job, certificate=made[0].id, lines=lines)
        try:
            ids = [one.id for one in made]
            await self._until_written(
                partial(activate, self._certificates, self._service, ids, finish)
            )
        except (CertificateMismatch, SignatureRefused, NotRestoring, NotReady, EngineDead) as error:
            await self._log(job, f"not activated: {error}")
            return False
        return True

    async def _move_on(
        self, job: Calibration, before: JobState, after: JobState, **values: str
    ) -> None:
        if not await self._patiently(self.jobs.move, job, (before,), after, **values):
            raise Conflict(f"calibration {job.id} is no longer {before}")

    async def _fail(self, job: Calibration, error: Exception) -> None:
        under_way = (JobState.RECORDING, JobState.FITTING)
        reason = str(error)
        if await self._patiently(self.jobs.move, job, under_way, JobState.FAILED, error=reason):
            await self._log(job, f"failed: {reason}")

    async def _patiently(
        self, work: Callable[P, Result], /, *args: P.args, **named: P.kwargs
    ) -> Result:
        """Writes once the database allows it: what is to be written took long to compute."""
        return await self._until_written(partial(self._threads.write, work, *args, **named))

    async def _until_written(self, write: Callable[[], Awaitable[Result]]) -> Result:
        while True:
            try:
                written = await write()
            except DatabaseRefused as error:
                self.note_trouble(error)
                await asyncio.sleep(RETRY)
            else:
                self.trouble = None
                return written

    def note_trouble(self, error: DatabaseRefused) -> None:
        """Says in the log, once for each cause, and in the job that it waits for the database."""
        if self.trouble != error.public:
            _log.error("calibration jobs wait for the database: %s", error)
        self.trouble = error.public

    async def _log(self, job: Calibration, text: str) -> None:
        async with self._logging:
            await self._patiently(self.jobs.log, job, text)


async def check_problems(recorder: Recorder, problems: list[LabelledProblem]) -> None:
    """Returns if the engine accepts every problem.

    Raises:
        RequestRefused: a problem does not fit into the model's context; the message names it.
    """

    def check(some: list[LabelledProblem]) -> None:
        for problem in some:
            recorder.check(problem)

    for start in range(0, len(problems), _CHECKED_AT_ONCE):
        await asyncio.to_thread(check, problems[start : start + _CHECKED_AT_ONCE])


async def require_untrained_here(
    engine: ReasoningEngine, problems: list[LabelledProblem]
) -> str | None:
    """`require_untrained` of this engine's model, and of the probe if exits act on one."""
    folders = engine.model_folder, engine.probe_folder
    return await asyncio.to_thread(require_untrained, problems, *folders)


def _named(certificate: Certificate) -> str:
    if certificate.about is None:
        return "certificate" if certificate.kind is None else "certificate of all kinds"
    return f"certificate of kind {certificate.about!r}"


def _verdicts(certificate: Certificate) -> list[str]:
    of = "" if certificate.kind is None else f"{_named(certificate)}, "
    return [
        f"{of}alpha {level.alpha:g}: certified"
        if isinstance(level, CertifiedLevel)
        else f"{of}alpha {level.alpha:g}: not certified. {level.reason}"
        for level in certificate.levels
    ]
