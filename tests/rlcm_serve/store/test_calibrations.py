import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from msgspec import structs
from sqlalchemy import update
from sqlalchemy.orm import Session

from calibration import Method, Promise
from rlcm_serve.core import RiskName, VoteRule
from rlcm_serve.errors import Conflict, KeyReused, NotFound, UnreadableJob
from rlcm_serve.recording.problems import LabelledProblem
from rlcm_serve.recording.rollouts import RecordedReading, RecordedRollout
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store import calibrations
from rlcm_serve.store.calibration_tables import CalibrationRow
from rlcm_serve.store.calibrations import LOG_LINES, CalibrationStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.job import UNFINISHED, Calibration, CalibrationRequest, JobState, Post
from rlcm_serve.store.running.leases import Leases
from rlcm_serve.store.running.recording_rows import RecordingRows
from rlcm_serve.store.upkeep.removal import AT_ONCE, delete_job, delete_recordings
from tests.rlcm_serve.scripted_engine import IDENTITY

REQUEST = CalibrationRequest(
    risk=RiskName.ERROR,
    alphas=(0.1, 1 / 3),
    delta=0.05,
    promise=Promise.POINTWISE,
    samples=4,
    vote=VoteRule.MAJORITY,
    rollouts=8,
    method=Method.HOLM,
    activate=True,
)
PROBLEMS = [
    LabelledProblem("z", "What is “π”? 😀", r"\pi", group="g"),
    LabelledProblem("a", "x?", "1", kind="algebra"),
]


def a_recording(problem: str, rollout: int, answer: str = "1") -> RecordedRollout:
    reading = RecordedReading(20, float("nan"), (answer, None), (True, False), 5)
    return RecordedRollout(problem, rollout, None, (1, 2), (3,) * 20, True, (reading,))


def slim(recording: RecordedRollout) -> RecordedRollout:
    return structs.replace(recording, prompt=(), tokens=())


def recording_job(jobs: CalibrationStore, id_: str = "cal_1") -> Calibration:
    job = jobs.create(id_, REQUEST, PROBLEMS)
    assert jobs.move(job, (JobState.QUEUED,), JobState.RECORDING)
    return jobs.get(id_)


def test_a_post_makes_one_job_however_often_it_comes(database: Database) -> None:
    post = Post("place", "digest", 60)
    with ThreadPoolExecutor(8) as crowd:
        posted = [
            crowd.submit(
                CalibrationStore(database).create, f"cal_{n}", REQUEST, PROBLEMS, post=post
            )
            for n in range(8)
        ]
        ids = {one.result().id for one in posted}
    jobs = CalibrationStore(database)
    assert [job.id for job in jobs.all()] == list(ids)
    with pytest.raises(KeyReused):
        jobs.create("cal_9", REQUEST, PROBLEMS, post=Post("place", "other", 60))
    assert jobs.create("cal_9", REQUEST, PROBLEMS, post=Post("elsewhere", "other", 0)).id == "cal_9"
    again = jobs.create("cal_10", REQUEST, PROBLEMS, post=Post("elsewhere", "digest", 60))
    assert again.id == "cal_10", "the first one was kept for no time"
    assert len(jobs.all()) == 3


def test_of_two_extensions_at_the_same_moment_one_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is held after its check until the other one has passed its own, or must wait."""
    CalibrationStore(database).create("cal_1", REQUEST, PROBLEMS)
    both_checked, check = threading.Barrier(2), calibrations._require_last

    def held(session: Session, id_: str) -> None:
        check(session, id_)
        with suppress(threading.BrokenBarrierError):
            both_checked.wait(timeout=0.5)

    monkeypatch.setattr(calibrations, "_require_last", held)
    extension = replace(REQUEST, extends="cal_1")
    with ThreadPoolExecutor(2) as crowd:
        posted = [
            crowd.submit(CalibrationStore(database).create, id_, extension, PROBLEMS)
            for id_ in ("cal_2", "cal_3")
        ]
        outcomes = [one.exception() for one in posted]
    assert sorted(type(outcome) for outcome in outcomes if outcome) == [Conflict]
    assert len(CalibrationStore(database).all()) == 2


async def test_a_post_whose_job_was_deleted_makes_no_other(database: Database) -> None:
    jobs, post = CalibrationStore(database), Post("place", "digest", 60)
    job = jobs.create("cal_1", REQUEST, PROBLEMS, post=post)
    jobs.cancel("cal_1")
    await delete_job(database, job)
    with pytest.raises(NotFound, match="cal_1"):
        jobs.create("cal_2", REQUEST, PROBLEMS, post=post)


def test_a_job_is_kept_as_it_was_asked_for(database: Database) -> None:
    job = CalibrationStore(database).create("cal_1", REQUEST, PROBLEMS)
    jobs = CalibrationStore(database)
    assert jobs.get("cal_1") == job
    assert job.request == REQUEST
    assert (job.state, job.done, job.total) == (JobState.QUEUED, 0, 16)
    assert (job.started, job.finished, job.fingerprint, job.log) == (None, None, None, ())
    assert jobs.problems(job) == PROBLEMS, "in the order they came"


def test_jobs_wait_in_the_order_they_came(database: Database) -> None:
    jobs = CalibrationStore(database)
    made = [jobs.create(f"cal_{number}", REQUEST, PROBLEMS) for number in range(3)]
    assert [job.id for job in jobs.all()] == ["cal_2", "cal_1", "cal_0"]
    assert [job.id for job in jobs.all(limit=1)] == ["cal_2"]
    leases = Leases(database)
    assert leases.free() == ["cal_0", "cal_1", "cal_2"]
    jobs.move(made[0], (JobState.QUEUED,), JobState.FAILED, error="no luck")
    assert leases.free() == ["cal_1", "cal_2"]
    jobs.move(made[1], (JobState.QUEUED,), JobState.FITTING)
    assert leases.free() == ["cal_1", "cal_2"], "what has begun goes on first"
    counts = jobs.count()
    assert (counts[JobState.QUEUED], counts[JobState.FITTING], counts[JobState.FAILED]) == (1, 1, 1)
    assert sum(counts.values()) == 3


def test_a_state_is_left_once(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = jobs.create("cal_1", REQUEST, PROBLEMS)
    assert jobs.move(job, (JobState.QUEUED,), JobState.RECORDING)
    first = jobs.get("cal_1")
    assert first.started is not None
    assert not jobs.move(job, (JobState.QUEUED,), JobState.FAILED, error="too late")
    assert jobs.get("cal_1") == first
    assert jobs.move(job, (JobState.RECORDING,), JobState.RECORDING)
    assert jobs.get("cal_1").started == first.started, "when it began stays"
    assert jobs.move(job, (JobState.RECORDING,), JobState.DONE, certificate="571b667eda0c")
    done = jobs.get("cal_1")
    assert (done.certificate, done.error, done.finished is None) == ("571b667eda0c", None, False)


def test_each_recording_counts_once(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = recording_job(jobs)
    rows = RecordingRows(database, job, PROBLEMS)
    made = [a_recording("a", 1), a_recording("z", 3), a_recording("a", 0)]
    for recording in made:
        rows.append(recording)
    rows.append(a_recording("a", 1, answer="came second"))
    assert rows.keys() == {("a", 1), ("z", 3), ("a", 0)}
    assert jobs.get("cal_1").done == 3
    expected = [made[1], made[2], made[0]]  # by problem as posted, and rollout
    assert [repr(one) for one in jobs.recordings(job)] == [repr(slim(one)) for one in expected]


def test_jobs_do_not_mix(database: Database) -> None:
    jobs = CalibrationStore(database)
    first, second = recording_job(jobs, "cal_1"), recording_job(jobs, "cal_2")
    RecordingRows(database, first, PROBLEMS).append(a_recording("a", 0))
    assert RecordingRows(database, second, PROBLEMS).keys() == set()
    assert [job.done for job in jobs.all()] == [0, 1]


def test_the_first_engine_counts(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = recording_job(jobs)
    first, second = fingerprint_of(IDENTITY), fingerprint_of(replace(IDENTITY, model="m1"))
    assert jobs.made_with(job, first) == first
    assert jobs.made_with(job, second) == first
    assert jobs.get("cal_1").fingerprint == first


async def test_cancelling_deletes_what_was_recorded_and_nothing_comes_after(
    database: Database,
) -> None:
    jobs = CalibrationStore(database)
    job, other = recording_job(jobs, "cal_1"), recording_job(jobs, "cal_2")
    rows = RecordingRows(database, job, PROBLEMS)
    rows.append(a_recording("a", 0))
    RecordingRows(database, other, PROBLEMS).append(a_recording("z", 0))
    jobs.cancel("cal_1")
    await delete_recordings(database, job)
    cancelled = jobs.get("cal_1")
    assert (cancelled.state, cancelled.done) == (JobState.CANCELLED, 0)
    assert [line.text for line in cancelled.log] == ["cancelled"]
    assert jobs.problems(job) == []
    with pytest.raises(Conflict, match="is cancelled: it records nothing more"):
        rows.append(a_recording("a", 1))
    assert jobs.get("cal_2").done == 1
    with pytest.raises(Conflict, match="cal_1 is cancelled: only an unfinished job"):
        jobs.cancel("cal_1")


async def test_a_job_is_deleted_in_short_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = CalibrationStore(database)
    many = [LabelledProblem(str(number), "x?", "1") for number in range(2 * AT_ONCE + 1)]
    job = jobs.create("cal_1", REQUEST, many)
    jobs.move(job, (JobState.QUEUED,), JobState.RECORDING)
    rows = RecordingRows(database, job, many)
    for number in (0, AT_ONCE, 2 * AT_ONCE):
        rows.append(a_recording(str(number), 0))
    jobs.keep_traces(job, b"PAR1")
    jobs.move(job, (JobState.RECORDING,), JobState.FAILED)
    assert jobs.ended_before(job.created - 1) == []
    assert jobs.ended_before(job.created + 1000) == ["cal_1"]
    transactions, session = [], database.session
    monkeypatch.setattr(database, "session", lambda: transactions.append(1) or session())
    await delete_job(database, jobs.get("cal_1"))
    assert len(transactions) == 4, "three for the problems, one for the job"
    assert jobs.all() == []
    assert rows.keys() == set()
    assert jobs.problems(job) == []


def test_a_log_keeps_its_last_lines(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = recording_job(jobs)
    for number in range(LOG_LINES + 7):
        jobs.log(job, f"line {number}")
    log = jobs.get("cal_1").log
    assert [line.text for line in log] == [f"line {n}" for n in range(7, LOG_LINES + 7)]
    assert [line.time for line in log] == sorted(line.time for line in log)
    assert jobs.all()[0].log == (), "not where jobs are listed"


def test_traces_are_kept_whole_and_the_last_ones_count(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = recording_job(jobs)
    with pytest.raises(Conflict, match="is recording and has no traces"):
        jobs.traces("cal_1")
    for parquet in (b"first", bytes(range(256)) * 1000):
        jobs.keep_traces(job, parquet)
        assert jobs.traces("cal_1") == parquet
    assert jobs.get("cal_1").has_traces
    assert jobs.all()[0].has_traces


def test_a_cancelled_job_has_no_traces(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = recording_job(jobs)
    jobs.keep_traces(job, b"PAR1")
    jobs.cancel(job.id)
    with pytest.raises(Conflict, match="cal_1 is cancelled: it keeps no traces"):
        jobs.keep_traces(job, b"PAR1")
    assert not jobs.get("cal_1").has_traces


async def test_nothing_is_stored_of_a_job_that_another_process_deleted(database: Database) -> None:
    jobs = CalibrationStore(database)
    job = recording_job(jobs)
    jobs.cancel(job.id)
    await delete_job(database, job)
    recording_job(jobs, "cal_2")  # which may have the same number
    for attempt in (
        lambda: jobs.log(job, "a line"),
        lambda: jobs.keep_traces(job, b"PAR1"),
        lambda: jobs.keep_of_kinds(job, {"algebra": "571b667eda0c"}),
    ):
        with pytest.raises(Conflict, match="calibration cal_1 was deleted"):
            attempt()
    with pytest.raises(Conflict, match="calibration cal_1 was deleted: it records nothing more"):
        RecordingRows(database, job, PROBLEMS).append(a_recording(PROBLEMS[0].id, 0))
    leases = Leases(database)
    assert leases.claim(jobs.get("cal_2"))
    assert (leases.claim(job), leases.renew(job)) == (False, False)
    assert not jobs.move(job, UNFINISHED, JobState.FAILED)
    await delete_job(database, job)
    left = jobs.get("cal_2")
    assert (left.log, left.has_traces, left.of_kinds) == ((), False, {})
    assert (left.state, left.done) == (JobState.RECORDING, 0)
    assert jobs.problems(left) == list(PROBLEMS)
    assert leases.renew(left)


async def test_a_line_that_comes_while_a_job_is_deleted_is_deleted_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, add_line = CalibrationStore(database), calibrations._add_line
    job = recording_job(jobs)
    jobs.cancel(job.id)
    begun = threading.Event()

    def add_slowly(session: Session, job: Calibration, text: str) -> None:
        begun.set()
        time.sleep(0.5)
        add_line(session, job, text)

    monkeypatch.setattr(calibrations, "_add_line", add_slowly)
    logging = asyncio.create_task(asyncio.to_thread(jobs.log, job, "a line"))
    await asyncio.to_thread(begun.wait)
    await delete_job(database, job)
    await logging
    assert jobs.all() == []


def test_unknown_jobs_are_not_found(database: Database) -> None:
    jobs = CalibrationStore(database)
    for attempt in (jobs.get, jobs.traces, jobs.cancel):
        with pytest.raises(NotFound, match="no calibration 'nobody'"):
            attempt("nobody")


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("asked", REQUEST.to_json()[:-1] + ', "later": 1}', "later"),
        ("asked", REQUEST.to_json().replace("holm", "newer"), "newer"),
        ("asked", REQUEST.to_json().replace('"samples": 4', '"samples": 0'), "n is 0"),
        ("state", "paused", "paused"),
        ("fingerprint", "{}", "fingerprint|missing|Fingerprint"),
    ],
)
def test_a_job_of_another_release_hides_no_other_one(
    database: Database, caplog: pytest.LogCaptureFixture, column: str, value: str, why: str
) -> None:
    jobs = CalibrationStore(database)
    for id_ in ("cal_1", "cal_2"):
        jobs.create(id_, REQUEST, PROBLEMS)
    with database.session() as session:
        session.execute(
            update(CalibrationRow).where(CalibrationRow.id == "cal_1").values({column: value})
        )
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert [job.id for job in jobs.all()] == ["cal_2"]
            with pytest.raises(UnreadableJob, match=why):
                jobs.get("cal_1")
    (line,) = caplog.messages
    assert line.startswith("calibration cal_1 was made by another release")
