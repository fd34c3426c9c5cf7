"""Calibration jobs in the database. A job's state only moves forward, also with several writers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from calibration.traces.fingerprint import Fingerprint
from rlcm_serve.errors import Conflict, KeyReused, NotFound, RequestRefused, UnreadableJob
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.rollouts import RecordedRollout
from rlcm_serve.store.calibration_tables import (
    CalibrationRow,
    KindCertificateRow,
    KindRow,
    LogRow,
    OwnerRow,
    PostRow,
    ProblemRow,
    RecordingRow,
    TracesRow,
)
from rlcm_serve.store.caller import ANYONE, Caller, Scope
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import (
    UNFINISHED,
    Calibration,
    CalibrationRequest,
    JobState,
    LogLine,
    Post,
)

LOG_LINES = 200
"""Log lines kept per job."""
_BATCH = 100
"""Recordings fetched at a time."""
_log = logging.getLogger(__name__)


class CalibrationStore:
    """The jobs of one database. May be used from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._warned: set[str] = set()

    def create(
        self,
        id_: str,
        request: CalibrationRequest,
        problems: Sequence[LabelledProblem],
        owner: str | None = None,
        post: Post | None = None,
        made_for: Fingerprint | None = None,
    ) -> Calibration:
        """Adds a job with these problems to the queue, unless the same post has made one already.

        Args:
            id_: of the new job.
            request: what it records and fits.
            problems: labelled.
            owner: the key that starts it.
            post: the request that makes it, if it may be repeated.
            made_for: engine and grader that must record it; None if any may.

        Returns:
            The new job, or the one of an earlier post.

        Raises:
            Conflict: another job extends the same one.
            KeyReused: the idempotency key of the post came with something else before.
            NotFound: the job of the earlier post was deleted, or the one that this one extends.
        """
        try:
            return self.get(self._create(id_, request, problems, owner, post, made_for))
        except IntegrityError:  # in PostgreSQL, the same post was committed in the meantime
            return self.get(self._create(id_, request, problems, owner, post, made_for))

    def _create(
        self,
        id_: str,
        request: CalibrationRequest,
        problems: Sequence[LabelledProblem],
        owner: str | None,
        post: Post | None,
        made_for: Fingerprint | None,
    ) -> str:
        with self._database.session() as session:
            if post is not None:
                session.execute(delete(PostRow).where(PostRow.until <= time.time()))
                if (known := _job_of(session, post)) is not None:
                    return known
                _keep_post(session, post, id_)
            if request.extends is not None:
                _require_last(session, request.extends)
            row = CalibrationRow(
                id=id_,
                state=JobState.QUEUED,
                asked=request.to_json(),
                n_problems=len(problems),
                created=time.time(),
                fingerprint=None if made_for is None else json.dumps(made_for.to_json()),
            )
            session.add(row)
            if owner is not None:
                session.add(OwnerRow(id=id_, key=owner))
            session.flush()
            session.add_all(
                ProblemRow(
                    job=row.number,
                    index=index,
                    id=one.id,
                    problem=one.problem,
                    answer=one.answer,
                    group=one.group,
                )
                for index, one in enumerate(problems)
            )
            session.add_all(
                KindRow(job=row.number, index=index, kind=one.kind)
                for index, one in enumerate(problems)
                if one.kind is not None
            )
        return id_

    def of_post(self, post: Post) -> Calibration | None:
        """The job that an earlier post made; None for the first.

        Raises:
            KeyReused: the idempotency key of the post came with something else before.
            NotFound: the job was deleted.
        """
        with self._database.reading() as session:
            known = _job_of(session, post)
        return None if known is None else self.get(known)

    def get(self, id_: str, caller: Caller = ANYONE) -> Calibration:
        """The job with this id, including its log.

        Raises:
            NotFound: there is no such job, or the caller may not know of it.
            UnreadableJob: it is of another release; the log says so once.
        """
        with self._database.reading() as session:
            row = _find(session, id_)
            owner = session.get(OwnerRow, id_)
            if not caller.sees(None if owner is None else owner.key):
                raise _unknown(id_)
            (done,) = _done(session, [row.number])
            log = _last_lines(session, row.number, LOG_LINES)
            job = self._read(row, done, _has_traces(session, row.number), log)
            return replace(job, of_kinds=_of_kinds(session, row.number))

    def all(self, limit: int = 100, caller: Caller = ANYONE) -> list[Calibration]:
        """The latest jobs that the caller may see, the newest first, without their logs.

        A job that cannot be read is left out; the log says so once.
        """
        latest = (
            select(CalibrationRow)
            .outerjoin(OwnerRow, OwnerRow.id == CalibrationRow.id)
            .order_by(CalibrationRow.number.desc())
            .limit(limit)
        )
        if not caller.may(Scope.ADMIN):
            latest = latest.where(OwnerRow.key == caller.key_id)
        with self._database.reading() as session:
            rows = session.scalars(latest).all()
            finished = _done(session, [row.number for row in rows])
            jobs = []
            for row, done in zip(rows, finished, strict=True):
                with suppress(UnreadableJob):
                    jobs.append(self._read(row, done, _has_traces(session, row.number)))
            return jobs

    def latest(self, jobs: int, lines: int, caller: Caller = ANYONE) -> list[Calibration]:
        """The latest jobs that the caller may see, each with the last lines of its log."""
        latest = self.all(jobs, caller)
        with self._database.reading() as session:
            return [replace(job, log=_last_lines(session, job.number, lines)) for job in latest]

    def count(self) -> dict[JobState, int]:
        """The number of jobs in each state."""
        with self._database.reading() as session:
            counted = select(CalibrationRow.state, func.count()).group_by(CalibrationRow.state)
            found = {JobState(state): number for state, number in session.execute(counted)}
        return {state: found.get(state, 0) for state in JobState}

    def problems(self, job: Calibration) -> list[LabelledProblem]:
        """The job's problems in their original order; none after it was cancelled."""
        with self._database.reading() as session:
            rows = session.scalars(
                select(ProblemRow).where(ProblemRow.job == job.number).order_by(ProblemRow.index)
            )
            kinds = session.scalars(select(KindRow).where(KindRow.job == job.number))
            kind_of = {one.index: one.kind for one in kinds}
            return [
                LabelledProblem(row.id, row.problem, row.answer, row.group, kind_of.get(row.index))
                for row in rows
            ]

    def recordings(self, job: Calibration) -> Iterator[RecordedRollout]:
        """The job's recordings by problem and rollout, loaded in small batches."""
        with self._database.reading() as session:
            contents = session.scalars(
                select(RecordingRow.content)
                .where(RecordingRow.job == job.number)
                .order_by(RecordingRow.problem, RecordingRow.rollout)
                .execution_options(yield_per=_BATCH)
            )
            for content in contents:
                yield RecordedRollout.from_json(json.loads(content))

    def made_with(self, job: Calibration, fingerprint: Fingerprint) -> Fingerprint:
        """The fingerprint of the job's recordings; sets it to `fingerprint` if it has none."""
        with self._database.session() as session:
            row = _find(session, job.id)
            if row.fingerprint is None:
                row.fingerprint = json.dumps(fingerprint.to_json())
            return Fingerprint.from_json(json.loads(row.fingerprint))

    def move(
        self, job: Calibration, before: Collection[JobState], after: JobState, **values: Any
    ) -> bool:
        """Moves a job from one of the states `before` to `after`, and sets further columns.

        `started` and `finished` are set on the way.

        Returns:
            False, without any change, if the job was in another state.
        """
        with self._database.session() as session:
            return _move(session, job, before, after, values)

    def finish(
        self, session: Session, job: Calibration, certificate: str, lines: Sequence[str]
    ) -> None:
        """Ends a job that is fitting with its certificate, in the transaction of the caller.

        Args:
            session: of the transaction.
            job: the job.
            certificate: id of the result.
            lines: the last ones of its log.

        Raises:
            Conflict: it is in another state.
        """
        result = {"certificate": certificate}
        if not _move(session, job, (JobState.FITTING,), JobState.DONE, result):
            raise Conflict(f"calibration {job.id} is no longer {JobState.FITTING}")
        for line in lines:
            _add_line(session, job, line)

    def cancel(self, id_: str) -> None:
        """Cancels a job and deletes its traces.

        `delete_recordings` of `rlcm_serve.store.upkeep.removal` does the rest.

        Raises:
            NotFound: there is no such job.
            Conflict: it has already ended.
        """
        job = self.get(id_)
        with self._database.session() as session:
            if _move(session, job, UNFINISHED, JobState.CANCELLED):
                session.execute(delete(TracesRow).where(TracesRow.job == job.number))
                _add_line(session, job, "cancelled")
                return
        state = self.get(id_).state
        raise Conflict(f"calibration {id_} is {state}: only an unfinished job can be cancelled")

    def ended_before(self, moment: float) -> list[str]:
        """The ids of the jobs that had ended by this time, in seconds since 1970, UTC.

        A job that is extended is not among them before the job that extends it: without its
        problems and recordings nothing more could be added.
        """
        with self._database.reading() as session:
            ended = CalibrationRow.state.not_in(UNFINISHED)
            old = select(CalibrationRow.id).where(ended, CalibrationRow.finished <= moment)
            ids = list(session.scalars(old.order_by(CalibrationRow.number)))
            extensions = _extensions(session)
        kept = extensions.keys() - ids
        for extension, extended in reversed(extensions.items()):  # the latest first
            if extension in kept:
                kept.add(extended)
        return [id_ for id_ in ids if id_ not in kept]

    def require_deletable(self, job: Calibration) -> None:
        """Returns if a job that has ended may be deleted.

        Raises:
            Conflict: it extends a job that would be extended a second time.
        """
        with self._database.reading() as session:
            extended = _extensions(session).get(job.id)
            known = select(CalibrationRow.number).where(CalibrationRow.id == extended)
            if extended is not None and session.scalar(known) is not None:
                raise Conflict(
                    f"calibration {job.id} extends {extended}, which could be extended a second "
                    f"time without it: delete {extended} first"
                )

    def log(self, job: Calibration, text: str) -> None:
        """Adds a line to the job's log, and deletes the oldest beyond `LOG_LINES`.

        Raises:
            Conflict: the job was deleted.
        """
        with self._database.session() as session:
            _lock(session, job)  # so that processes that write to one log take turns
            _add_line(session, job, text)

    def keep_traces(self, job: Calibration, parquet: bytes) -> None:
        """Stores the traces of the recordings, replacing those of an earlier attempt.

        Raises:
            Conflict: the job was deleted or cancelled.
        """
        with self._database.session() as session:
            _lock(session, job)
            if _find(session, job.id).state == JobState.CANCELLED:
                raise Conflict(f"calibration {job.id} is cancelled: it keeps no traces")
            session.merge(TracesRow(job=job.number, parquet=parquet))

    def keep_of_kinds(self, job: Calibration, certificates: Mapping[str, str]) -> None:
        """Notes the certificates of single kinds, ids by kind. A repetition changes nothing.

        Raises:
            Conflict: the job was deleted.
        """
        with self._database.session() as session:
            _lock(session, job)
            for kind, certificate in certificates.items():
                row = KindCertificateRow(job=job.number, certificate=certificate, kind=kind)
                session.merge(row)

    def traces(self, id_: str) -> bytes:
        """The recordings of a job as traces, in Parquet.

        Raises:
            NotFound: there is no such job.
            Conflict: it has not recorded everything.
        """
        with self._database.reading() as session:
            row = _find(session, id_)
            found = session.get(TracesRow, row.number)
            if found is None:
                raise Conflict(
                    f"calibration {id_} is {row.state} and has no traces: they exist once every "
                    "rollout is recorded"
                )
            return found.parquet

    def _read(
        self,
        row: CalibrationRow,
        done: int,
        has_traces: bool,
        log: Sequence[LogLine] = (),
    ) -> Calibration:
        """The job of a row.

        Raises:
            UnreadableJob: another release made it.
        """
        try:
            return _calibration(row, done, has_traces, log)
        except (TypeError, ValueError, LookupError, RequestRefused) as error:
            unreadable = UnreadableJob(row.id, error)
            if row.id not in self._warned:
                self._warned.add(row.id)
                _log.error("%s", unreadable)
            raise unreadable from error


def _require_last(session: Session, id_: str) -> None:
    """Whoever extends a job twice, and keeps the better result, has two chances.

    The row of the extended job is locked until the transaction ends. So of two extensions that are
    posted at the same moment, the second one sees the first.

    Raises:
        NotFound: there is no such job any more.
        Conflict: the job is extended already.
    """
    extended = select(CalibrationRow.number).where(CalibrationRow.id == id_)
    if session.scalar(extended.with_for_update()) is None:
        raise _unknown(id_)
    extension = next((new for new, old in _extensions(session).items() if old == id_), None)
    if extension is not None:
        raise Conflict(
            f"calibration {id_} is extended by {extension} already, and may be extended once: "
            f"extend {extension} instead"
        )


def _extensions(session: Session) -> dict[str, str]:
    """The job that each other one extends, the oldest first; without those that gave no result."""
    without_result = (JobState.FAILED, JobState.CANCELLED)
    extending = select(CalibrationRow.id, CalibrationRow.asked).where(
        CalibrationRow.asked.contains('"extends": "', autoescape=True),
        CalibrationRow.state.not_in(without_result),
    )
    rows = session.execute(extending.order_by(CalibrationRow.number))
    return {row.id: json.loads(row.asked)["extends"] for row in rows}


def _job_of(session: Session, post: Post) -> str | None:
    """The id of the job that an earlier post made; None for the first.

    Raises:
        KeyReused: the idempotency key of the post came with something else before.
    """
    known = session.get(PostRow, post.place)
    if known is None or known.until <= time.time():
        return None
    if known.digest != post.digest:
        raise KeyReused
    return known.job


def _keep_post(session: Session, post: Post, job: str) -> None:
    until = time.time() + post.seconds
    session.add(PostRow(place=post.place, digest=post.digest, job=job, until=until))
    session.flush()


def _move(
    session: Session,
    job: Calibration,
    before: Collection[JobState],
    after: JobState,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    now, times = time.time(), dict[str, Any]()
    if after is JobState.RECORDING:
        times["started"] = func.coalesce(CalibrationRow.started, now)
    if after.ended:
        times["finished"] = now
    found = session.execute(
        update(CalibrationRow)
        .where(CalibrationRow.id == job.id, CalibrationRow.state.in_(before))
        .values(state=after, **values, **times)
        .returning(CalibrationRow.number)
    )
    return found.scalar() is not None


def is_locked(session: Session, job: Calibration) -> bool:
    """Keeps a job from being changed and deleted by others until the transaction ends.

    False if it was deleted. In SQLite, another one may have its number by now.
    """
    row = select(CalibrationRow.number).where(CalibrationRow.id == job.id)
    return session.scalar(row.with_for_update()) is not None


def _lock(session: Session, job: Calibration) -> None:
    """As `is_locked`; raises Conflict if the job was deleted."""
    if not is_locked(session, job):
        raise Conflict(f"calibration {job.id} was deleted")


def _add_line(session: Session, job: Calibration, text: str) -> None:
    last = session.scalar(select(func.max(LogRow.number)).where(LogRow.job == job.number))
    number = (last or 0) + 1
    session.add(LogRow(job=job.number, number=number, time=time.time(), text=text))
    too_old = LogRow.number <= number - LOG_LINES
    session.execute(delete(LogRow).where(LogRow.job == job.number, too_old))


def _find(session: Session, id_: str) -> CalibrationRow:
    row = session.scalar(select(CalibrationRow).where(CalibrationRow.id == id_))
    if row is None:
        raise _unknown(id_)
    return row


def _unknown(id_: str) -> NotFound:
    return NotFound(f"there is no calibration {id_!r}: GET /calibrations lists all jobs")


def _done(session: Session, jobs: Sequence[int]) -> list[int]:
    """The number of finished rollouts of each job."""
    counted = (
        select(RecordingRow.job, func.count())
        .where(RecordingRow.job.in_(jobs))
        .group_by(RecordingRow.job)
    )
    found = {row[0]: row[1] for row in session.execute(counted)}
    return [found.get(job, 0) for job in jobs]


def _last_lines(session: Session, job: int, count: int) -> tuple[LogLine, ...]:
    """The last lines of a job's log, the oldest of them first."""
    of_job = select(LogRow).where(LogRow.job == job)
    last = session.scalars(of_job.order_by(LogRow.number.desc()).limit(count)).all()
    return tuple(LogLine(line.time, line.text) for line in reversed(last))


def _of_kinds(session: Session, job: int) -> dict[str, str]:
    """The certificates of single kinds that a job made: ids by kind."""
    of_job = select(KindCertificateRow).where(KindCertificateRow.job == job)
    rows = session.scalars(of_job.order_by(KindCertificateRow.kind))
    return {row.kind: row.certificate for row in rows}


def _has_traces(session: Session, job: int) -> bool:
    return session.scalar(select(TracesRow.job).where(TracesRow.job == job)) is not None


def _calibration(
    row: CalibrationRow,
    done: int,
    has_traces: bool,
    log: Sequence[LogLine],
) -> Calibration:
    return Calibration(
        id=row.id,
        number=row.number,
        state=JobState(row.state),
        request=CalibrationRequest.from_json(row.asked),
        n_problems=row.n_problems,
        done=done,
        fingerprint=None
        if row.fingerprint is None
        else Fingerprint.from_json(json.loads(row.fingerprint)),
        created=row.created,
        started=row.started,
        finished=row.finished,
        certificate=row.certificate,
        error=row.error,
        has_traces=has_traces,
        log=log,
    )
